//! Tables for recognising and undoing wrongly decoded text: byte encodings, and characters that rarely meet.
//!
//! The values of `ftfy` 6.3.1 by Robyn Speer (Apache-2.0), whose results this module must reproduce:
//! <https://github.com/rspeer/python-ftfy/blob/v6.3.1/ftfy/badness.py>, `chardata.py`, `bad_codecs/sloppy.py`.
//! Contains no rules, only characters.

/// Bytes 0x80 to 0xFF of encodings with one byte a character, whose lower half is ASCII.
pub const WINDOWS_1252: &str = concat!(
    "€\u{81}‚ƒ„…†‡ˆ‰Š‹Œ\u{8d}Ž\u{8f}\u{90}‘’“”•–—˜™š›œ\u{9d}žŸ\u{a0}¡¢£¤¥¦§",
    "¨©ª«¬\u{ad}®¯°±²³´µ¶·¸¹º»¼½¾¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖ×ØÙÚÛÜÝÞßàáâãäåæçè",
    "éêëìíîïðñòóôõö÷øùúûüýþÿ",
);
pub const WINDOWS_1251: &str = concat!(
    "ЂЃ‚ѓ„…†‡€‰Љ‹ЊЌЋЏђ‘’“”•–—\u{98}™љ›њќћџ\u{a0}ЎўЈ¤Ґ¦§Ё©Є«¬\u{ad}®Ї°±Ііґµ¶",
    "·ё№є»јЅѕїАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯабвгдежзийклмнопрстуфхцчшщъыь",
    "эюя",
);

/// Characters of many contexts.
pub const COMMON: &str = "\u{a0}\u{ad}·´–—―…’";

/// Unused control characters.
pub const C1: &str = "\u{80}-\u{9f}";

/// Almost always a sign of wrong decoding.
pub const BAD: &str = "¦¤¨¬¯¸ƒˆˇ˘˛˜†‡‰⌐◊�ªº";

pub const LAW: &str = "¶§";

pub const CURRENCY: &str = "¢£¥₧€";

/// In front of words.
pub const START_PUNCTUATION: &str = "¡«¿©΄΅‘‚“„•‹\u{f8ff}";

/// Behind words.
pub const END_PUNCTUATION: &str = "®»˝”›™";

/// Of numbers and formulas.
pub const NUMERIC: &str = "²³¹±¼½¾×µ÷⁄∂∆∏∑√∞∩∫≈≠≡≤≥№";

/// Letters that make faces.
pub const KAOMOJI: &str = "Ò-ÖÙ-Üò-öø-üŐŌŪŲ°";

pub const UPPER_ACCENTED: &str = "À-ÑØÜÝĂĀĄĆČĎĐĘĚĒĖĞĢİĪĶĹĽŁĻŃŇŅŒŘŚŞŠŢŤŮŰŸŹŻŽҐ";

pub const LOWER_ACCENTED: &str = "ßà-ñăąāćčďđęěēėğģįīķĺľłļœŕśşšťüźżžґﬁﬂ";

/// Capital letters of other alphabets.
pub const UPPER_COMMON: &str = "ÞΑ-ΩΆΈΉΊΌΎΏΪΫЁ-Я";

/// Small letters of other alphabets.
pub const LOWER_COMMON: &str = "α-ωάέήίΰа-џ";

/// Of boxes drawn with characters.
pub const BOX: &str = "│┌┐┘├┤┬┼═-╬▀▄█▌▐░▒▓";

/// First bytes of two, wrongly decoded.
pub const UTF8_FIRST_OF_2: &str = concat!(
    "ĂÂÄĀÅÃÆĆČÇĎĐÉĚÊËĖÈĒĘÐĞĢÍÎÏİÌĪĶĹĻŁŃŇŅÑÓÔÖŐÒŌØÕŘŚŠŞŢÞÚÛÜŰÙŪŲŮÝŹŽŻß×ΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥ",
    "ΦΧΨΩΪΫάέήίВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯ",
);

/// First bytes of three.
pub const UTF8_FIRST_OF_3: &str =
    "áăâäàāąåãæćčçďéěêëėèēęęģíîïìīįķĺļŕźΰαβγδεζηθικλμνξοабвгдежзийклмноп";

/// First bytes of four.
pub const UTF8_FIRST_OF_4: &str = "đðğóšπσру";

/// Bytes that follow, a space for a lost one among them.
pub const UTF8_CONTINUATION: &str = concat!(
    "\u{80}-¿ ĄÆĽŁØŖŚŠŞŤŸŹŽŻŒąæƒľłøŗśšşťźžżœˆˇ˘˛˜˝΄΅ΆΈΉΊΌΎΏЁЂЃЄЅІЇЈЉЊЋЌЎЏёђѓєѕіїјљњћќўџҐґ",
    "–—―‘’‚“”„†‡•…‰‹›€№™",
);

/// Bytes that follow and rarely mean themselves.
pub const UTF8_CONTINUATION_STRICT: &str = concat!(
    "\u{80}-¿ĄÆĽŁØŖŚŠŞŤŸŹŽŻŒąæƒľłøŗśšşťźžżœˆˇ˘˛˜˝΄΅ΆΈΉΊΌΎΏЁЂЃЄЅІЇЈЉЊЋЌЎЏёђѓєѕіїјљњћќўџҐґ†",
    "‡‰‹›€№™",
);
