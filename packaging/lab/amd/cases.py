"""A small case for each kernel, of odd sizes, and what NumPy makes of it.

A method `case_NAME` belongs to the kernel NAME, or to NAME_1, NAME_2 and so on for threads that hold so many pieces. It
launches the kernel and yields a name for each result, the result, and what was due: in f64, or, where the very bits are
due, in the kind itself. `tests/architecture` holds that every kernel has one.
"""

import re

import gguf
import numpy as np
from gguf.quants import dequantize

from tensors import Tensors, structs_of, wave

# Two of each, a batch. The first SPLIT tokens have other factors than the rest.
TOKENS, SPLIT = 11, 4
EPS = 1e-6


def layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + EPS)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def turned(x, angles):
    """Neighbouring pairs of the last dimension, turned."""
    pairs = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
    return np.stack([pairs.real, pairs.imag], -1).reshape(x.shape)


def blocks_for(count, each):
    return -(-count // each)


class Cases(Tensors):
    """Runs the kernels of one code object on tensors of one kind."""

    def __init__(self, kernels, kind, source):
        super().__init__(kind)
        self.kernels, self.source, self.structs = kernels, source, structs_of(source)

    def of(self, kernel):
        """The results of a kernel; `None` where there is no case for it."""
        case = getattr(self, f"case_{kernel}", None)
        if case is not None:
            return case()
        name, _, held = kernel.rpartition("_")
        case = getattr(self, f"case_{name}", None) if held.isdigit() else None
        return None if case is None else case(int(held))

    def launch(self, name, struct, blocks, threads, **fields):
        if struct not in self.structs:
            raise ValueError(f"the source has no struct {struct}")
        args = self.structs[struct]()
        for field, value in fields.items():
            if not hasattr(args, field):
                raise ValueError(f"{struct} has no field {field}")
            setattr(args, field, value.ctypes.data if isinstance(value, np.ndarray) else value)
        self.kernels.launch(name, int(blocks), threads, args)

    # Rows of tokens: `rows.cu`.

    def _threads_of_rows(self, held):
        """Short rows of which a block has several, then long ones; the last threads have nothing left to hold."""
        for along, beside in ((8, 16), (512 if held == 8 else 64, 1)):
            yield (along, beside), (held * along - 2) * self.piece

    def case_add(self, held):
        return self._added_and_normed("add", held, adds=True)

    def case_norm(self, held):
        return self._added_and_normed("norm", held, norms=True)

    def case_add_norm(self, held):
        return self._added_and_normed("add_norm", held, adds=True, norms=True)

    def _added_and_normed(self, name, held, adds=False, norms=False):
        rows_type = self.structs["Rows"]
        early = (np.arange(TOKENS) < SPLIT)[:, None]
        for threads, channels in self._threads_of_rows(held):
            size = (2, TOKENS, channels)
            wide, narrow = self.tensor(wave((2, 6, channels), 0.53)), self.elems(wave((3, channels), 0.29) + 1.5)
            for is_wide in (True, False):
                xs, ys = self.elems(wave(size, 0.37) * 2 + 0.5), self.elems(wave(size, 0.71))
                out, due = self.elems(np.zeros(size)), self.widened(xs)
                rows, factors = [], []
                for i in range(3):
                    own, apart = (wide[:, i], 6 * channels) if is_wide else (narrow[None, i], 0)
                    rows.append(rows_type(own.ctypes.data, apart, SPLIT, int(is_wide)))
                    factors.append(np.where(early, self.widened(own[0]), self.widened(own[-1])))
                self.launch(
                    f"{name}_{held}",
                    "NormArgs",
                    blocks_for(2 * TOKENS, threads[1]),
                    threads,
                    xs=xs,
                    ys=ys if adds else 0,
                    out=out if norms else 0,
                    gate=rows[0] if is_wide else rows_type(),
                    scale=rows[1],
                    shift=rows[2],
                    rows=2 * TOKENS,
                    tokens=TOKENS,
                    channels=channels,
                    per_channel=1 / channels,
                    eps=EPS,
                    offset=float(is_wide),
                )
                what = f"{'modulated' if is_wide else 'affine'} {channels}"
                if adds:
                    yield what, xs, due + self.widened(ys) * (factors[0] if is_wide else 1)
                    # The norm is that of the sum as it was rounded.
                    due = self.widened(xs)
                if norms:
                    yield what, out, layer_norm(due) * (factors[1] + is_wide) + factors[2]

    def case_rms(self, held):
        for threads, channels in self._threads_of_rows(held):
            yield self._heads(held, threads, channels)
            yield self._shifted(held, threads, channels)
            yield from self._halves(held, threads, channels)
            yield self._pixels(held, threads, channels)

    def _heads(self, held, threads, channels):
        """Two rows of queries and two of keys, of two heads each, turned, in place, beside two rows of values."""
        xs = self.elems(wave((TOKENS, 6, channels), 0.37) * 2 + 0.5)
        weights, head_dim, rows = self.tensor(wave((2, channels), 0.29) + 1.5), channels // 2, 4 * TOKENS
        angles = wave((TOKENS, 1, 1, head_dim // 2), 0.83) * 3
        turns = self.tensor(np.stack([np.cos(angles), np.sin(angles)], -1))
        due = self.widened(xs)
        length = np.sqrt((due[:, :4] ** 2).mean(-1, keepdims=True) + EPS)
        normed = due[:, :4] / length * np.repeat(weights, 2, 0)
        due[:, :4] = turned(normed.reshape(TOKENS, 4, 2, head_dim), angles).reshape(TOKENS, 4, channels)
        self.launch(
            f"rms_{held}",
            "RmsArgs",
            blocks_for(rows, threads[1]),
            threads,
            xs=xs,
            out=xs,
            weight=weights,
            turns=turns,
            xs_stride=6 * channels,
            out_stride=6 * channels,
            rows=rows,
            tokens=TOKENS,
            channels=channels,
            head_dim=head_dim,
            parts=4,
            sharing=2,
            factor=1 / channels,
            eps=EPS,
            least=0,
            is_wide=1,
            with_silu=0,
        )
        return f"heads {channels}", xs, due

    def _shifted(self, held, threads, channels):
        """Rows normed, scaled and shifted, the middle ones of three parts, into a tensor of their own."""
        xs, out = self.elems(wave((TOKENS, 3, channels), 0.37) * 2 + 0.5), self.elems(np.zeros((TOKENS, channels)))
        weight, shift = self.tensor(wave(channels, 0.29) + 1.5), self.tensor(wave(channels, 0.53))
        due = self.widened(xs)[:, 1]
        self.launch(
            f"rms_{held}",
            "RmsArgs",
            blocks_for(TOKENS, threads[1]),
            threads,
            xs=xs[:, 1],
            out=out,
            weight=weight,
            shift=shift,
            xs_stride=3 * channels,
            out_stride=channels,
            rows=TOKENS,
            tokens=TOKENS,
            channels=channels,
            head_dim=channels,
            parts=1,
            sharing=1,
            factor=1 / channels,
            eps=EPS,
            least=0,
            is_wide=1,
            with_silu=0,
        )
        return f"shifted {channels}", out, due / np.sqrt((due**2).mean(-1, keepdims=True) + EPS) * weight + shift

    def _halves(self, held, threads, channels):
        """Two heads of three whose pairs lie half a head apart, normed or not, into a tensor of their own."""
        if channels % (2 * self.piece):
            return
        half, rows = channels // 2, 2 * TOKENS
        weight = self.tensor(wave((1, channels), 0.29) + 1.5)
        angles = wave((TOKENS, 1, half), 0.83) * 3
        turns = self.tensor(np.stack([np.cos(angles), np.sin(angles)], -1))
        for is_normed in (False, True):
            xs = self.elems(wave((TOKENS, 3, channels), 0.37) * 2 + 0.5)
            out = self.elems(np.zeros((TOKENS, 2, channels)))
            due = self.widened(xs)[:, :2]
            if is_normed:
                due = due / np.sqrt((due**2).mean(-1, keepdims=True) + EPS) * weight
            first, second = due[..., :half], due[..., half:]
            cosine, sine = np.cos(angles), np.sin(angles)
            due = np.concatenate([first * cosine - second * sine, second * cosine + first * sine], -1)
            self.launch(
                f"rms_{held}",
                "RmsArgs",
                blocks_for(rows, threads[1]),
                threads,
                xs=xs,
                out=out,
                weight=weight if is_normed else 0,
                turns=turns,
                xs_stride=3 * channels,
                out_stride=2 * channels,
                rows=rows,
                tokens=TOKENS,
                channels=channels,
                head_dim=channels,
                parts=2,
                sharing=2,
                factor=1 / channels,
                eps=EPS,
                least=0,
                is_wide=1,
                with_silu=0,
                in_halves=1,
            )
            yield f"halves {channels}{' normed' if is_normed else ''}", out, due

    def _pixels(self, held, threads, channels):
        """Pixels over their length, one of them without light."""
        numbers = wave((2 * TOKENS, channels), 0.37) * 2 + 0.5
        numbers[3] = 0
        xs, weight, out = self.elems(numbers), self.elems(wave(channels, 0.29) + 1.5), self.elems(numbers * 0)
        due = self.widened(xs)
        length = np.maximum(np.sqrt((due**2).sum(-1, keepdims=True)), 1e-12)
        self.launch(
            f"rms_{held}",
            "RmsArgs",
            blocks_for(2 * TOKENS, threads[1]),
            threads,
            xs=xs,
            out=out,
            weight=weight,
            xs_stride=channels,
            out_stride=channels,
            rows=2 * TOKENS,
            tokens=2 * TOKENS,
            channels=channels,
            head_dim=channels,
            parts=1,
            sharing=1,
            factor=1,
            eps=0,
            least=1e-24,
            is_wide=0,
            with_silu=1,
        )
        return f"pixels {channels}", out, silu(due / length * self.widened(weight))

    def case_activate(self):
        per_block = 2 * 128 * self.piece
        functions = (
            ("gelu", lambda x, _: gelu(x)),
            ("silu", lambda x, _: silu(x)),
            ("silu times", lambda x, y: silu(x) * y),
            ("times sigmoid", lambda x, y: x / (1 + np.exp(-y))),
        )
        for what, (name, function) in enumerate(functions):
            is_of_two = what >= 2
            # From where all are flat to where all are straight, and a rest behind the last whole piece.
            xs, ys = (self.elems(wave(per_block + 37, pace) * 100) for pace in (0.37, 0.71))
            due = function(self.widened(xs), self.widened(ys))
            self.launch(
                "activate",
                "ActivationArgs",
                2,
                (128, 1),
                xs=xs,
                ys=ys if is_of_two else 0,
                count=xs.size,
                what=what,
            )
            yield name, xs, due
            # The middle one of three parts, and the last beside it.
            width = 96
            xs = self.elems(wave((TOKENS, 3, width), 0.37) * 30)
            due = self.widened(xs)
            due[:, 1] = function(due[:, 1], due[:, 2])
            self.launch(
                "activate",
                "ActivationArgs",
                blocks_for(TOKENS * width, per_block),
                (128, 1),
                xs=xs[:, 1],
                ys=xs[:, 2] if is_of_two else 0,
                count=TOKENS * width,
                stride=3 * width,
                ys_stride=3 * width,
                row_pieces=width // self.piece,
                what=what,
            )
            yield f"{name} apart", xs, due

    # Images: `pixels.cu`.

    def _threads_of_pixels(self, channels):
        along = channels // self.piece
        return along, 256 // along

    def case_channel_moments(self):
        for channels, pixels, per_part in ((96, 143, 60), (512, 47, 20)):
            xs = self.elems(wave((pixels, channels), 0.37) * 2 + 7)
            parts = blocks_for(pixels, per_part)
            means, variances = (self.tensor(np.zeros((parts, channels))) for _ in range(2))
            self.launch(
                "channel_moments",
                "MomentsArgs",
                parts,
                self._threads_of_pixels(channels),
                xs=xs,
                means=means,
                variances=variances,
                pixels=pixels,
                channels=channels,
                per_part=per_part,
            )
            due = np.split(self.widened(xs), range(per_part, pixels, per_part))
            yield f"mean {channels}", means, np.stack([part.mean(0) for part in due])
            yield f"variance {channels}", variances, np.stack([part.var(0) for part in due])

    def case_join_moments(self):
        pixels, per_part, channels = 1234, 40, 72
        parts = np.split(wave((pixels, channels), 0.37) * 2 + 7, range(per_part, pixels, per_part))
        means, variances = (self.tensor([moment(part, 0) for part in parts]) for moment in (np.mean, np.var))
        mean, variance = (self.tensor(np.zeros(channels)) for _ in range(2))
        self.launch(
            "join_moments",
            "JoinArgs",
            blocks_for(channels, 32),
            (32, 16),
            means=means,
            variances=variances,
            mean=mean,
            variance=variance,
            pixels=pixels,
            channels=channels,
            parts=len(parts),
            per_part=per_part,
        )
        yield "mean", mean, np.concatenate(parts).mean(0)
        yield "variance", variance, np.concatenate(parts).var(0)

    def case_affine(self):
        pixels = 143
        for channels in (96, 512):
            threads, size = self._threads_of_pixels(channels), (pixels, channels)
            xs, ys = self.elems(wave(size, 0.37) * 2 + 7), self.elems(wave(size, 0.71))
            scale = self.tensor(wave(channels, 0.53) + 1.5)
            shift, out = self.tensor(wave(channels, 0.29) - scale * 7), self.elems(np.zeros(size))
            grid, both = blocks_for(pixels, 4 * threads[1]), dict(xs=xs, shift=shift, pixels=pixels, channels=channels)
            self.launch("affine", "AffineArgs", grid, threads, out=out, scale=scale, with_silu=1, **both)
            yield f"scaled, silu {channels}", out, silu(self.widened(xs) * scale + shift)
            due = self.widened(xs) + self.widened(ys) + shift
            self.launch("affine", "AffineArgs", grid, threads, out=xs, ys=ys, **both)
            yield f"sum {channels}", xs, due

    def case_place_corners(self):
        frames, height, width = 2, 6, 5
        pixels = frames * 2 * height * 2 * width
        y, x = np.mgrid[: 2 * height, : 2 * width]
        for channels in (24, 128):
            threads = self._threads_of_pixels(channels)
            corners = self.elems(wave((frames, height + 1, width + 1, 4, channels), 0.37))
            placed = self.widened(corners)[:, y // 2 + y % 2, x // 2 + x % 2, y % 2 * 2 + x % 2]
            for bias in (self.tensor(wave(channels, 0.53)), None):
                out = self.elems(placed * 0)
                self.launch(
                    "place_corners",
                    "PlaceArgs",
                    blocks_for(pixels, 4 * threads[1]),
                    threads,
                    corners=corners,
                    out=out,
                    bias=0 if bias is None else bias,
                    pixels=pixels,
                    height=height,
                    width=width,
                    channels=channels,
                )
                yield f"{channels}", out, placed if bias is None else placed + bias

    def case_softmax(self):
        scale = float(np.float32(0.3))
        for columns in (16, 1000, 9720):
            scores, out = self.tensor(wave((3, columns), 0.37) * 40), self.elems(np.zeros((3, columns)))
            self.launch("softmax", "SoftmaxArgs", 3, (512, 1), scores=scores, out=out, columns=columns, scale=scale)
            powers = np.exp((scores.astype(np.float64) - scores.max(-1, keepdims=True)) * scale)
            yield f"{columns}", out, powers / powers.sum(-1, keepdims=True)

    # Narrow storage: `expand.cu`.

    def case_expand_blocks(self):
        names = re.search(r"enum \{ (Q4_0[^}]*) \};", self.source).group(1).split(", ")
        # Where a block has numbers of f16.
        halves = {"Q2_K": [80, 82], "Q3_K": [108], "Q6_K": [208]}
        halves |= dict.fromkeys(["Q4_1", "Q5_1", "Q4_K", "Q5_K"], [0, 2])
        for number, name in enumerate(names):
            kind = gguf.GGMLQuantizationType[name]
            length, size = gguf.GGML_QUANT_SIZES[kind]
            blocks = np.random.default_rng(number).integers(0, 256, (5, size), np.uint8)
            # They are small numbers, and in the first block subnormal ones.
            for at in halves.get(name, [0]):
                blocks[:, at + 1] &= 0xBF
                blocks[0, at + 1] &= 0x83
            stored, out = self.tensor(blocks, np.uint8), self.elems(np.zeros(5 * length))
            pieces = 5 * length // self.piece
            self.launch(
                "expand_blocks",
                "BlocksArgs",
                blocks_for(pieces, 256),
                (256, 1),
                bytes=stored,
                out=out,
                pieces=pieces,
                block_bytes=size,
                block_len=length,
                type=number,
            )
            yield name, out, self.narrowed(dequantize(blocks, kind).reshape(-1))

    def case_expand_fp8(self):
        codes = np.arange(256, dtype=np.uint8)
        # Both are f16 with fewer bits.
        e5m2 = (codes.astype(np.uint16) << 8).view(np.float16).astype(np.float64)
        e4m3 = ((codes & 0x80).astype(np.uint16) << 8 | (codes & 0x7F).astype(np.uint16) << 7).view(np.float16)
        e4m3 = np.where(codes & 0x7F == 0x7F, np.nan, e4m3.astype(np.float64) * 256)
        for name, is_e5m2, numbers in (("e4m3", 0, e4m3), ("e5m2", 1, e5m2)):
            for scale in (1.0, 0.0078):
                stored, out = self.tensor(codes, np.uint8), self.elems(np.zeros(256))
                self.launch(
                    "expand_fp8",
                    "Fp8Args",
                    1,
                    (256, 1),
                    numbers=stored,
                    out=out,
                    pieces=256 // self.piece,
                    scale=scale,
                    is_e5m2=is_e5m2,
                )
                yield f"{name} * {scale}", out, numbers * float(np.float32(scale))

    def case_expand_quant(self):
        four = np.array([[1, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]]) / 2
        rotations = [np.ones((1, 1))]
        for _ in range(4):
            rotations.append(np.kron(rotations[-1], four))
        rows, columns = 3, 768
        random = np.random.default_rng(5)
        scales = np.abs(wave((rows, 1), 0.53)).astype(np.float32)
        table = wave((16,), 0.41).astype(np.float32)
        fp8 = np.arange(0x7F, dtype=np.uint16) << 7
        fp8 = fp8.view(np.float16).astype(np.float32) * np.float32(256)
        # Type of codes, columns and type of a block, levels of rotation.
        cases = [(0, 1, 0, levels) for levels in range(5)]
        cases += [(1, 1, 0, 4), (2, 16, 1, 4), (2, 4, 1, 2), (2, 64, 3, 3), (3, 16, 1, 0), (4, 32, 2, 0)]
        for codes, block, scale_type, levels in cases:
            if codes == 0:
                stored = random.integers(-128, 128, (rows, columns)).astype(np.int8)
                numbers = stored.astype(np.float32)
            elif codes == 4:
                stored = random.integers(0, 0x7F, (rows, columns)).astype(np.uint8)
                numbers = fp8[stored]
            else:
                stored = random.integers(0, 256, (rows, columns // 2)).astype(np.uint8)
                halves = [stored & 15, stored >> 4]
                numbers = table[np.stack(halves[::-1] if codes == 3 else halves, -1).reshape(rows, columns)]
            blocks, factors = np.zeros(1, np.uint8), scales
            if scale_type:
                shape = (rows, columns // block)
                if scale_type == 3:
                    blocks = np.abs(wave(shape, 0.61)).astype(np.float32) * np.float32(99)
                    factors = blocks
                elif scale_type == 2:
                    blocks = random.integers(120, 128, shape).astype(np.uint8)
                    factors = np.exp2(blocks.astype(np.float32) - 127)
                else:
                    blocks = random.integers(0, 0x7F, shape).astype(np.uint8)
                    factors = fp8[blocks]
                factors = np.repeat(factors, block, 1)
                if codes == 2:
                    numbers = np.clip(np.rint(numbers * factors), -127, 127)
                    factors = scales
                else:
                    factors = factors * scales
            out, runs = self.elems(np.zeros((rows, columns))), rows * columns // 16
            self.launch(
                "expand_quant",
                "QuantArgs",
                blocks_for(runs, 256),
                (256, 1),
                codes=self.tensor(stored, stored.dtype),
                scales=self.tensor(scales),
                block_scales=self.tensor(blocks, blocks.dtype),
                table=self.tensor(table),
                out=out,
                runs=runs,
                runs_per_row=columns // 16,
                code_type=codes,
                levels=levels,
                scale_type=scale_type,
                block_columns=block,
            )
            rotation = rotations[levels]
            straight = numbers.astype(np.float64).reshape(rows, -1, len(rotation)) @ rotation
            straight = straight.reshape(rows, columns).astype(np.float32)
            yield f"codes {codes}, blocks {block}, groups of {len(rotation)}", out, self.narrowed(straight * factors)
