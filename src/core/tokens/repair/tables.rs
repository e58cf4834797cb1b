//! Tables for recognising and undoing wrongly decoded text: byte encodings, and which characters rarely meet.
//!
//! The numbers behind `ftfy` 6.3.1 by Robyn Speer (Apache-2.0), whose results this module must reproduce:
//! <https://github.com/rspeer/python-ftfy/blob/v6.3.1/ftfy/badness.py>, `chardata.py`, `bad_codecs/sloppy.py`.
//! Knows no rules, only characters.

/// An encoding of one byte a character; the lower half is ASCII.
pub struct Encoding {
    /// Bytes 0x80 to 0xFF.
    pub upper: &'static str,
    /// Byte 0x1A stands for a character that was lost.
    pub is_sloppy: bool,
    /// A space in it may be a non-breaking one that somebody replaced.
    pub may_lose_a0: bool,
}

/// In the order in which they are tried.
pub const ENCODINGS: [Encoding; 10] = [
    // latin-1
    Encoding {
        upper: concat!(
            "\u{80}\u{81}\u{82}\u{83}\u{84}\u{85}\u{86}\u{87}\u{88}\u{89}\u{8a}",
            "\u{8b}\u{8c}\u{8d}\u{8e}\u{8f}\u{90}\u{91}\u{92}\u{93}\u{94}\u{95}",
            "\u{96}\u{97}\u{98}\u{99}\u{9a}\u{9b}\u{9c}\u{9d}\u{9e}\u{9f}\u{a0}¡¢£¤",
            "¥¦§¨©ª«¬\u{ad}®¯°±²³´µ¶·¸¹º»¼½¾¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖ×ØÙÚÛÜÝÞßàáâãäå",
            "æçèéêëìíîïðñòóôõö÷øùúûüýþÿ",
        ),
        is_sloppy: false,
        may_lose_a0: true,
    },
    // windows-1252
    Encoding {
        upper: concat!(
            "€\u{81}‚ƒ„…†‡ˆ‰Š‹Œ\u{8d}Ž\u{8f}\u{90}‘’“”•–—˜™š›œ\u{9d}žŸ\u{a0}¡¢£¤¥¦§",
            "¨©ª«¬\u{ad}®¯°±²³´µ¶·¸¹º»¼½¾¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖ×ØÙÚÛÜÝÞßàáâãäåæçè",
            "éêëìíîïðñòóôõö÷øùúûüýþÿ",
        ),
        is_sloppy: true,
        may_lose_a0: true,
    },
    // windows-1251
    Encoding {
        upper: concat!(
            "ЂЃ‚ѓ„…†‡€‰Љ‹ЊЌЋЏђ‘’“”•–—\u{98}™љ›њќћџ\u{a0}ЎўЈ¤Ґ¦§Ё©Є«¬\u{ad}®Ї°±Ііґµ¶",
            "·ё№є»јЅѕїАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯабвгдежзийклмнопрстуфхцчшщъыь",
            "эюя",
        ),
        is_sloppy: true,
        may_lose_a0: true,
    },
    // windows-1250
    Encoding {
        upper: concat!(
            "€\u{81}‚\u{83}„…†‡\u{88}‰Š‹ŚŤŽŹ\u{90}‘’“”•–—\u{98}™š›śťžź\u{a0}ˇ˘Ł¤Ą¦§",
            "¨©Ş«¬\u{ad}®Ż°±˛ł´µ¶·¸ąş»Ľ˝ľżŔÁÂĂÄĹĆÇČÉĘËĚÍÎĎĐŃŇÓÔŐÖ×ŘŮÚŰÜÝŢßŕáâăäĺćçč",
            "éęëěíîďđńňóôőö÷řůúűüýţ˙",
        ),
        is_sloppy: true,
        may_lose_a0: true,
    },
    // windows-1253
    Encoding {
        upper: concat!(
            "€\u{81}‚ƒ„…†‡\u{88}‰\u{8a}‹\u{8c}\u{8d}\u{8e}\u{8f}\u{90}‘’“”•–—\u{98}",
            "™\u{9a}›\u{9c}\u{9d}\u{9e}\u{9f}\u{a0}΅Ά£¤¥¦§¨©ª«¬\u{ad}®―°±²³΄µ¶·ΈΉΊ»",
            "Ό½ΎΏΐΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡÒΣΤΥΦΧΨΩΪΫάέήίΰαβγδεζηθικλμνξοπρςστυφχψωϊϋόύώÿ",
        ),
        is_sloppy: true,
        may_lose_a0: true,
    },
    // windows-1254
    Encoding {
        upper: concat!(
            "€\u{81}‚ƒ„…†‡ˆ‰Š‹Œ\u{8d}\u{8e}\u{8f}\u{90}‘’“”•–—˜™š›œ\u{9d}\u{9e}Ÿ",
            "\u{a0}¡¢£¤¥¦§¨©ª«¬\u{ad}®¯°±²³´µ¶·¸¹º»¼½¾¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏĞÑÒÓÔÕÖ×ØÙÚÛ",
            "ÜİŞßàáâãäåæçèéêëìíîïğñòóôõö÷øùúûüışÿ",
        ),
        is_sloppy: true,
        may_lose_a0: true,
    },
    // windows-1257
    Encoding {
        upper: concat!(
            "€\u{81}‚\u{83}„…†‡\u{88}‰\u{8a}‹\u{8c}¨ˇ¸\u{90}‘’“”•–—\u{98}™\u{9a}›",
            "\u{9c}¯˛\u{9f}\u{a0}¡¢£¤¥¦§Ø©Ŗ«¬\u{ad}®Æ°±²³´µ¶·ø¹ŗ»¼½¾æĄĮĀĆÄÅĘĒČÉŹĖĢĶ",
            "ĪĻŠŃŅÓŌÕÖ×ŲŁŚŪÜŻŽßąįāćäåęēčéźėģķīļšńņóōõö÷ųłśūüżž˙",
        ),
        is_sloppy: true,
        may_lose_a0: true,
    },
    // iso-8859-2
    Encoding {
        upper: concat!(
            "\u{80}\u{81}\u{82}\u{83}\u{84}\u{85}\u{86}\u{87}\u{88}\u{89}\u{8a}",
            "\u{8b}\u{8c}\u{8d}\u{8e}\u{8f}\u{90}\u{91}\u{92}\u{93}\u{94}\u{95}",
            "\u{96}\u{97}\u{98}\u{99}\u{9a}\u{9b}\u{9c}\u{9d}\u{9e}\u{9f}\u{a0}Ą˘Ł¤",
            "ĽŚ§¨ŠŞŤŹ\u{ad}ŽŻ°ą˛ł´ľśˇ¸šşťź˝žżŔÁÂĂÄĹĆÇČÉĘËĚÍÎĎĐŃŇÓÔŐÖ×ŘŮÚŰÜÝŢßŕáâăäĺ",
            "ćçčéęëěíîďđńňóôőö÷řůúűüýţ˙",
        ),
        is_sloppy: false,
        may_lose_a0: true,
    },
    // macroman
    Encoding {
        upper: concat!(
            "ÄÅÇÉÑÖÜáàâäãåçéèêëíìîïñóòôöõúùûü†°¢£§•¶ß®©™´¨≠ÆØ∞±≤≥¥µ∂∑∏π∫ªºΩæø¿¡¬√ƒ≈",
            "∆«»…\u{a0}ÀÃÕŒœ–—“”‘’÷◊ÿŸ⁄€‹›ﬁﬂ‡·‚„‰ÂÊÁËÈÍÎÏÌÓÔ\u{f8ff}ÒÚÛÙıˆ˜¯˘˙˚¸˝˛ˇ",
        ),
        is_sloppy: false,
        may_lose_a0: false,
    },
    // cp437
    Encoding {
        upper: concat!(
            "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼",
            "╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}",
        ),
        is_sloppy: false,
        may_lose_a0: true,
    },
];

/// Characters of many contexts.
pub const COMMON: &str = "\u{a0}\u{ad}·´–—―…’";

/// Control characters that nobody uses.
pub const C1: &str = "\u{80}-\u{9f}";

/// Almost always a sign of wrong decoding.
pub const BAD: &str = "¦¤¨¬¯¸ƒˆˇ˘˛˜†‡‰⌐◊�ªº";

/// Of legal texts.
pub const LAW: &str = "¶§";

/// Of money.
pub const CURRENCY: &str = "¢£¥₧€";

/// In front of words.
pub const START_PUNCTUATION: &str = "¡«¿©΄΅‘‚“„•‹\u{f8ff}";

/// Behind words.
pub const END_PUNCTUATION: &str = "®»˝”›™";

/// Of numbers and formulas.
pub const NUMERIC: &str = "²³¹±¼½¾×µ÷⁄∂∆∏∑√∞∩∫≈≠≡≤≥№";

/// Letters that make faces.
pub const KAOMOJI: &str = "Ò-ÖÙ-Üò-öø-üŐŌŪŲ°";

/// Capital letters with marks.
pub const UPPER_ACCENTED: &str = "À-ÑØÜÝĂĀĄĆČĎĐĘĚĒĖĞĢİĪĶĹĽŁĻŃŇŅŒŘŚŞŠŢŤŮŰŸŹŻŽҐ";

/// Small letters with marks.
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
