//! The items of a HEIF file (ISO/IEC 23008-12): AVIF and HEIC images, their tiles, places and properties.

use std::collections::{BTreeMap, BTreeSet};

use super::mp4::{BoxBytes, boxes, child, mastering_peak};

/// A file with more tiles in an image, pieces of items or turns of one is not read: an entry may take no byte of the file.
const MAX_TILES: usize = 4096;
const MAX_EXTENTS: usize = 1 << 16;
const MAX_TURNS: usize = 8;

/// A step that makes a decoded image upright.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeifTurn {
    /// Quarters anticlockwise.
    Rotated(u8),
    TopToBottom,
    LeftToRight,
    /// Left, top, width and height.
    Cropped([u32; 4]),
}

/// An item of the file and its properties.
#[derive(Default)]
pub(crate) struct HeifItem<'a> {
    pub kind: [u8; 4],
    /// Places in the file, or in the `idat` box.
    pub extents: Vec<(u64, u64)>,
    pub is_in_idat: bool,
    pub size: (u32, u32),
    /// Content of the `hvcC` box.
    pub hevc: Option<&'a [u8]>,
    pub is_deep: bool,
    pub profile: Option<&'a [u8]>,
    /// Primaries, transfer, matrix and whether the range is full.
    pub nclx: Option<(u16, u16, u16, bool)>,
    /// MaxCLL and the peak of the mastering display in cd/m²; 0 where they are not declared.
    pub light: (f64, f64),
    pub turns: Vec<HeifTurn>,
    pub is_alpha: bool,
    /// Its colours are stored multiplied by alpha.
    pub is_premultiplied: bool,
    /// Not shown alone, such as a tile.
    pub is_hidden: bool,
    pub tiles: Vec<u32>,
    /// The item that this one belongs to: of alpha, a depth map or a small copy.
    pub master: Option<u32>,
}

pub(crate) struct HeifContainer<'a> {
    pub items: BTreeMap<u32, HeifItem<'a>>,
    pub primary: u32,
    pub idat: &'a [u8],
}

impl<'a> HeifContainer<'a> {
    /// From the content of the `meta` box; `None` where it does not hold together.
    pub fn parse(meta: &'a [u8]) -> Option<Self> {
        let meta = meta.get(4..)?;
        let mut container = Self {
            items: BTreeMap::new(),
            primary: 0,
            idat: child(meta, *b"idat").unwrap_or_default(),
        };
        let mut primary = BoxBytes(child(meta, *b"pitm")?);
        let (version, _) = primary.version()?;
        container.primary = wide(&mut primary, version > 0)?;
        container.parse_kinds(child(meta, *b"iinf")?)?;
        container.parse_places(child(meta, *b"iloc")?)?;
        let properties = child(meta, *b"iprp")?;
        container.parse_properties(child(properties, *b"ipco")?, child(properties, *b"ipma")?)?;
        if let Some(references) = child(meta, *b"iref") {
            container.parse_references(references)?;
        }
        Some(container)
    }

    /// Number of images that are shown by themselves.
    pub fn num_images(&self) -> usize {
        let tiles: BTreeSet<u32> = self
            .items
            .values()
            .flat_map(|it| it.tiles.clone())
            .collect();
        let is_image = |(id, item): &(&u32, &HeifItem<'_>)| {
            let is_coded = matches!(&item.kind, b"hvc1" | b"av01" | b"grid");
            is_coded && !item.is_hidden && item.master.is_none() && !tiles.contains(*id)
        };
        self.items.iter().filter(is_image).count()
    }

    fn parse_kinds(&mut self, list: &[u8]) -> Option<()> {
        let version = *list.first()?;
        let entries = list.get(if version == 0 { 6 } else { 8 }..)?;
        for (name, content) in boxes(entries) {
            let mut entry = BoxBytes(content);
            let (version, flags) = entry.version()?;
            if &name != b"infe" || version < 2 {
                continue;
            }
            let id = wide(&mut entry, version > 2)?;
            entry.skip(2)?;
            let item = self.items.entry(id).or_default();
            item.kind = entry.array()?;
            item.is_hidden = flags & 1 == 1;
        }
        Some(())
    }

    fn parse_places(&mut self, list: &[u8]) -> Option<()> {
        let mut list = BoxBytes(list);
        let (version, _) = list.version()?;
        let [sizes, more] = list.array()?;
        let (offset_bytes, length_bytes) = (sizes >> 4, sizes & 15);
        let base_bytes = more >> 4;
        let index_bytes = if version == 0 { 0 } else { more & 15 };
        let count = wide(&mut list, version > 1)?;
        let mut room = MAX_EXTENTS;
        for _ in 0..count {
            let id = wide(&mut list, version > 1)?;
            let method = if version == 0 { 0 } else { list.u16()? & 15 };
            list.skip(2)?;
            let base = number(&mut list, base_bytes)?;
            let num_extents = list.u16()?;
            room = room.checked_sub(num_extents.into())?;
            let item = self.items.entry(id).or_default();
            item.is_in_idat = method == 1;
            for _ in 0..num_extents {
                number(&mut list, index_bytes)?;
                let offset = number(&mut list, offset_bytes)?;
                let length = number(&mut list, length_bytes)?;
                item.extents.push((base.checked_add(offset)?, length));
            }
        }
        Some(())
    }

    fn parse_properties(&mut self, properties: &'a [u8], links: &[u8]) -> Option<()> {
        let properties: Vec<_> = boxes(properties).collect();
        let mut links = BoxBytes(links);
        let (version, flags) = links.version()?;
        for _ in 0..links.u32()? {
            let id = wide(&mut links, version > 0)?;
            let count = links.u8()?;
            for _ in 0..count {
                let index = if flags & 1 == 1 {
                    usize::from(links.u16()? & 0x7fff)
                } else {
                    usize::from(links.u8()? & 0x7f)
                };
                let Some((name, content)) = index.checked_sub(1).and_then(|at| properties.get(at))
                else {
                    continue;
                };
                self.items
                    .entry(id)
                    .or_default()
                    .take_property(*name, content)?;
            }
        }
        Some(())
    }

    fn parse_references(&mut self, list: &[u8]) -> Option<()> {
        let is_wide = *list.first()? > 0;
        for (name, content) in boxes(list.get(4..)?) {
            let mut content = BoxBytes(content);
            let from = wide(&mut content, is_wide)?;
            let count = content.u16()?;
            for _ in 0..count {
                let to = wide(&mut content, is_wide)?;
                let item = self.items.entry(from).or_default();
                match &name {
                    b"dimg" if item.tiles.len() < MAX_TILES => item.tiles.push(to),
                    b"auxl" | b"thmb" => item.master = Some(to),
                    b"prem" => item.is_premultiplied = true,
                    _ => {}
                }
            }
        }
        Some(())
    }
}

impl<'a> HeifItem<'a> {
    fn take_property(&mut self, name: [u8; 4], content: &'a [u8]) -> Option<()> {
        let mut bytes = BoxBytes(content);
        match &name {
            b"ispe" => {
                bytes.skip(4)?;
                self.size = (bytes.u32()?, bytes.u32()?);
            }
            b"colr" => match &bytes.array()? {
                b"nclx" => {
                    let codes = (bytes.u16()?, bytes.u16()?, bytes.u16()?);
                    let is_full = bytes.u8()? & 0x80 != 0;
                    self.nclx = Some((codes.0, codes.1, codes.2, is_full));
                }
                b"prof" | b"rICC" => self.profile = Some(bytes.0),
                _ => {}
            },
            b"clli" => self.light.0 = bytes.u16()?.into(),
            b"mdcv" => self.light.1 = mastering_peak(content)?,
            b"hvcC" => self.hevc = Some(content),
            b"pixi" => self.is_deep = content.get(5).is_some_and(|bits| *bits > 8),
            b"irot" => self.turns.push(HeifTurn::Rotated(bytes.u8()? & 3)),
            b"imir" => self.turns.push(if bytes.u8()? & 1 == 0 {
                HeifTurn::TopToBottom
            } else {
                HeifTurn::LeftToRight
            }),
            b"clap" => self
                .turns
                .push(HeifTurn::Cropped(aperture(&mut bytes, self.size)?)),
            b"auxC" => {
                let name = content.get(4..)?;
                let alpha = [
                    &b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha"[..],
                    b"urn:mpeg:hevc:2015:auxid:1",
                ];
                self.is_alpha = alpha.iter().any(|alpha| name.starts_with(alpha));
            }
            _ => {}
        }
        (self.turns.len() <= MAX_TURNS).then_some(())
    }
}

/// The clean aperture: width, height and the offset of its centre, as fractions.
fn aperture(bytes: &mut BoxBytes<'_>, size: (u32, u32)) -> Option<[u32; 4]> {
    let mut fraction = || Some(f64::from(bytes.i32()?) / f64::from(bytes.i32()?));
    let (width, height, right, down) = (fraction()?, fraction()?, fraction()?, fraction()?);
    let start =
        |side: u32, part: f64, offset: f64| ((f64::from(side) - part) / 2.0 + offset).round();
    let (left, top) = (start(size.0, width, right), start(size.1, height, down));
    let fits = left >= 0.0
        && top >= 0.0
        && width >= 1.0
        && height >= 1.0
        && left + width <= f64::from(size.0)
        && top + height <= f64::from(size.1);
    fits.then(|| [left, top, width.round(), height.round()].map(|it| it as u32))
}

/// The parameter sets in an `hvcC` box with start codes, and how many bytes the lengths of units have.
pub(crate) fn parameter_sets(content: &[u8]) -> Option<(Vec<u8>, usize)> {
    let length_bytes = usize::from(content.get(21)? & 3) + 1;
    let mut bytes = BoxBytes(content.get(22..)?);
    let mut sets = Vec::new();
    for _ in 0..bytes.u8()? {
        bytes.skip(1)?;
        for _ in 0..bytes.u16()? {
            let len = bytes.u16()?;
            sets.extend([0, 0, 0, 1]);
            sets.extend(bytes.take(len.into())?);
        }
    }
    Some((sets, length_bytes))
}

/// A number of four bytes, or of two.
pub(crate) fn wide(bytes: &mut BoxBytes<'_>, is_wide: bool) -> Option<u32> {
    if is_wide {
        bytes.u32()
    } else {
        bytes.u16().map(u32::from)
    }
}

/// A number of up to eight bytes.
pub(crate) fn number(bytes: &mut BoxBytes<'_>, count: u8) -> Option<u64> {
    let bytes = bytes.take(count.into()).filter(|it| it.len() <= 8)?;
    Some(
        bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    )
}
