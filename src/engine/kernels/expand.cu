// Numbers in narrow storage to numbers that can be computed with: GGUF's blocks, fp8, quantized matrices. Compiled behind `rows.cu`,
// whose types and helpers it uses. The structs of arguments are mirrored in `expand.rs`.
//
// A thread makes one piece of 16 bytes, which lies in one block and in one part of it. Every product and difference
// is rounded by itself, as in the reference, so that the bits agree in f32. The layouts of blocks are those of
// <https://github.com/ggml-org/llama.cpp/blob/master/ggml/src/ggml-common.h>.

#define EXPAND_THREADS 256

typedef unsigned char u8;

#if defined(__HIP__) || defined(__HIPCC__)

__device__ inline float half_number(u16 bits) {
  union {
    u16 bits;
    _Float16 number;
  } half;
  half.bits = bits;
  return (float)half.number;
}

// Never joined to one instruction that rounds once.
__device__ inline float times(float a, float b) {
#pragma clang fp contract(off)
  return a * b;
}

__device__ inline float plus(float a, float b) {
#pragma clang fp contract(off)
  return a + b;
}

#else

__device__ inline float half_number(u16 bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}

__device__ inline float times(float a, float b) { return __fmul_rn(a, b); }
__device__ inline float plus(float a, float b) { return __fadd_rn(a, b); }

#endif

// Blocks begin anywhere.
__device__ inline float half_at(const u8 *from) { return half_number((u16)(from[0] | from[1] << 8)); }

__device__ inline u32 word_at(const u8 *from) {
  return (u32)from[0] | (u32)from[1] << 8 | (u32)from[2] << 16 | (u32)from[3] << 24;
}

// What four bits stand for in the types of IQ4.
__device__ const signed char IQ4_VALUES[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// The order of the types in `BlockType::ALL`.
enum { Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS };

// The scale and the minimum of a part in the types of four and five bits, six bits each.
__device__ inline void part_scales(const u8 *block, int part, float *scale, float *min) {
  const u8 *bytes = block + 4;
  u32 own_scale, own_min;
  if (part < 4) {
    own_scale = bytes[part] & 0x3f;
    own_min = bytes[part + 4] & 0x3f;
  } else {
    own_scale = (bytes[part + 4] & 0xf) | ((bytes[part - 4] >> 2) & 0x30);
    own_min = (bytes[part + 4] >> 4) | ((bytes[part] >> 2) & 0x30);
  }
  *scale = times(half_at(block), (float)own_scale);
  *min = times(half_at(block + 2), (float)own_min);
}

// N numbers of a block with 32 of them, from number `at` on: the low halves of 16 bytes, then the high ones.
__device__ inline void small_block(float *x, const u8 *block, int type, int at) {
  const float scale = half_at(block);
  if (type == Q8_0) {
    for (int i = 0; i < N; i++) {
      x[i] = times((float)(signed char)block[2 + at + i], scale);
    }
    return;
  }
  const bool has_min = type == Q4_1 || type == Q5_1;
  const bool has_fifths = type == Q5_0 || type == Q5_1;
  const u8 *rest = block + (has_min ? 4 : 2);
  const u32 fifths = has_fifths ? word_at(rest) >> at : 0;
  const u8 *bytes = rest + (has_fifths ? 4 : 0) + (at & 15);
  const int shift = at < 16 ? 0 : 4;
  const float min = has_min ? half_at(block + 2) : 0.0f;
  const float middle = type == Q4_0 ? -8.0f : type == Q5_0 ? -16.0f : 0.0f;
  for (int i = 0; i < N; i++) {
    const u32 bits = (bytes[i] >> shift) & 0xf;
    if (type == IQ4_NL) {
      x[i] = times(scale, (float)IQ4_VALUES[bits]);
    } else {
      const float number = (float)(bits | ((fifths >> i) & 1) << 4) + middle;
      const float product = times(scale, number);
      x[i] = has_min ? plus(product, min) : product;
    }
  }
}

// N numbers of a block with 256 of them, from number `at` on.
__device__ inline void large_block(float *x, const u8 *block, int type, int at) {
  if (type == Q4_K || type == Q5_K) {
    const int part = at / 32;
    float scale, min;
    part_scales(block, part, &scale, &min);
    const u8 *bytes = block + (type == Q4_K ? 16 : 48) + 32 * (part / 2) + at % 32;
    const u8 *fifths = block + 16 + at % 32;
    const int shift = 4 * (part % 2);
    for (int i = 0; i < N; i++) {
      u32 bits = (bytes[i] >> shift) & 0xf;
      if (type == Q5_K) {
        bits |= ((fifths[i] >> part) & 1) << 4;
      }
      x[i] = plus(times(scale, (float)bits), -min);
    }
    return;
  }
  if (type == IQ4_XS) {
    const int part = at / 32;
    const u32 low = (block[4 + part / 2] >> (4 * (part % 2))) & 0xf;
    const u32 high = (block[2 + part / 4] >> (2 * (part % 4))) & 3;
    const float scale = times(half_at(block), (float)(low | high << 4) - 32.0f);
    const u8 *bytes = block + 8 + 16 * part + (at & 15);
    const int shift = at % 32 < 16 ? 0 : 4;
    for (int i = 0; i < N; i++) {
      x[i] = times(scale, (float)IQ4_VALUES[(bytes[i] >> shift) & 0xf]);
    }
    return;
  }
  // Parts of 16 numbers.
  const int part = at / 16, first = at % 16;
  if (type == Q6_K) {
    const float scale = times(half_at(block + 208), (float)(signed char)block[192 + part]);
    const u8 *bytes = block + 64 * (part / 8) + 16 * (part % 4) + first;
    const u8 *uppers = block + 128 + 32 * (part / 8) + 16 * (part % 2) + first;
    const int shift = 4 * (part % 8 / 4), upper_shift = 2 * (part % 8 / 2);
    for (int i = 0; i < N; i++) {
      const u32 bits = ((bytes[i] >> shift) & 0xf) | ((uppers[i] >> upper_shift) & 3) << 4;
      x[i] = times(scale, (float)bits - 32.0f);
    }
    return;
  }
  // Two bits of each number: 128 of them share 32 bytes.
  const u8 *bytes = block + (type == Q2_K ? 16 : 32) + 32 * (part / 8) + 16 * (part % 2) + first;
  const int shift = 2 * (part % 8 / 2);
  if (type == Q2_K) {
    const u32 both = block[part];
    const float scale = times(half_at(block + 80), (float)(both & 0xf));
    const float min = times(half_at(block + 82), (float)(both >> 4));
    for (int i = 0; i < N; i++) {
      x[i] = plus(times(scale, (float)((bytes[i] >> shift) & 3)), -min);
    }
    return;
  }
  const u32 low = (block[96 + part % 8] >> (4 * (part / 8))) & 0xf;
  const u32 high = (block[104 + part % 4] >> (2 * (part / 4))) & 3;
  const float scale = times(half_at(block + 108), (float)(low | high << 4) - 32.0f);
  const u8 *thirds = block + 16 * (part % 2) + first;
  for (int i = 0; i < N; i++) {
    const u32 bits = ((bytes[i] >> shift) & 3) | ((thirds[i] >> (part / 2)) & 1) << 2;
    // A bit that is set takes nothing away.
    x[i] = times(scale, (float)bits - 4.0f);
  }
}

struct BlocksArgs {
  const u8 *bytes;
  elem *out;
  // Of 16 bytes each, all together.
  i64 pieces;
  u32 block_bytes;
  u32 block_len;
  u32 type;
};

KERNEL expand_blocks(BlocksArgs args) {
  const i64 piece = (i64)blockIdx.x * EXPAND_THREADS + threadIdx.x;
  if (piece >= args.pieces) {
    return;
  }
  const u32 per_block = args.block_len / N;
  const i64 number = piece / per_block;
  const int at = (int)(piece - number * per_block) * N;
  const u8 *block = args.bytes + number * args.block_bytes;
  float x[N];
  if (args.block_len == 32) {
    small_block(x, block, (int)args.type, at);
  } else {
    large_block(x, block, (int)args.type, at);
  }
  store(args.out + piece * N, packed(x));
}

struct Fp8Args {
  // N at a time.
  const u8 *numbers;
  elem *out;
  i64 pieces;
  float scale;
  // Five bits of exponent rather than four.
  int is_e5m2;
};

// The formats are f16 with fewer bits: one as it is, one with another zero of the exponent.
__device__ inline float fp8_number(u32 byte, int is_e5m2) {
  if (is_e5m2) {
    return half_number((u16)(byte << 8));
  }
  if ((byte & 0x7f) == 0x7f) {
    return __uint_as_float(0x7fc00000u);
  }
  return half_number((u16)((byte & 0x80) << 8 | (byte & 0x7f) << 7)) * 256.0f;
}

KERNEL expand_fp8(Fp8Args args) {
  const i64 piece = (i64)blockIdx.x * EXPAND_THREADS + threadIdx.x;
  if (piece >= args.pieces) {
    return;
  }
  float x[N];
  for (int word = 0; word < N / 4; word++) {
    const u32 four = ((const u32 *)args.numbers)[piece * (N / 4) + word];
    for (int i = 0; i < 4; i++) {
      x[4 * word + i] = fp8_number((four >> (8 * i)) & 0xff, args.is_e5m2) * args.scale;
    }
  }
  store(args.out + piece * N, packed(x));
}

// Numbers of one thread, side by side.
#define RUN 16

// The order of `CodeType::ALL`.
enum { CODES_INT8, CODES_INT4, CODES_INDEX4, CODES_E2M1, CODES_E4M3 };

// Types of block scales.
enum { NO_BLOCKS, BLOCKS_E4M3, BLOCKS_E8M0, BLOCKS_F32 };

struct QuantArgs {
  // Rows without gaps between them.
  const u8 *codes;
  // Of each row.
  const float *scales;
  // Of each block of columns.
  const u8 *block_scales;
  // Values of codes of four bits.
  const float *table;
  elem *out;
  u32 runs;
  u32 runs_per_row;
  int code_type;
  // How many columns are rotated together, as a power of four; 0 where none are.
  int levels;
  int scale_type;
  // 4, 8 or a multiple of 16.
  u32 block_columns;
};

__device__ inline float block_scale(const QuantArgs &args, i64 number) {
  if (args.scale_type == BLOCKS_F32) {
    return ((const float *)args.block_scales)[number];
  }
  const u32 byte = args.block_scales[number];
  return args.scale_type == BLOCKS_E4M3 ? fp8_number(byte, 0) : __uint_as_float(byte << 23);
}

// Four numbers times the regular Hadamard matrix of four: half of their sum, less the one opposite. What is summed are
// whole numbers over a small power of two, so that nothing is rounded.
__device__ inline void rotate(float *x, int stride) {
  const float half = 0.5f * (x[0] + x[stride] + x[2 * stride] + x[3 * stride]);
  const float first = half - x[3 * stride], second = half - x[2 * stride];
  x[2 * stride] = half - x[stride], x[3 * stride] = half - x[0];
  x[0] = first, x[stride] = second;
}

// The same of one number in each of four lanes.
__device__ inline float rotated(float x, int stride) {
  float sum = x + EXCHANGE(x, stride);
  sum += EXCHANGE(sum, 2 * stride);
  return 0.5f * sum - EXCHANGE(x, 3 * stride);
}

KERNEL expand_quant(QuantArgs args) {
  const u32 own = blockIdx.x * EXPAND_THREADS + threadIdx.x;
  // Lanes behind the last run exchange with the others all the same.
  const u32 run = own < args.runs ? own : args.runs - 1;
  const u32 row = run / args.runs_per_row;
  const float scale = args.scales[row];
  float x[RUN];
  if (args.code_type == CODES_INT8 || args.code_type == CODES_E4M3) {
    const uint4 codes = ((const uint4 *)args.codes)[run];
    const u32 words[4] = {codes.x, codes.y, codes.z, codes.w};
    for (int i = 0; i < RUN; i++) {
      const u32 byte = (words[i / 4] >> (8 * (i % 4))) & 0xff;
      x[i] = args.code_type == CODES_INT8 ? (float)(signed char)byte : fp8_number(byte, 0);
    }
  } else {
    const uint2 codes = ((const uint2 *)args.codes)[run];
    const u32 words[2] = {codes.x, codes.y};
    // The even column is in the low half of a byte, or in the high one.
    const int swap = args.code_type == CODES_E2M1 ? 4 : 0;
    for (int i = 0; i < RUN; i++) {
      x[i] = args.table[(words[i / 8] >> ((4 * (i % 8)) ^ swap)) & 0xf];
    }
  }
  if (args.scale_type != NO_BLOCKS) {
    const u32 column = (run - row * args.runs_per_row) * RUN;
    const i64 first = (i64)row * (args.runs_per_row * RUN / args.block_columns);
    const u32 mask = (args.block_columns < RUN ? args.block_columns : RUN) - 1;
    float factor = 0.0f;
    for (int i = 0; i < RUN; i++) {
      if ((i & mask) == 0) {
        factor = block_scale(args, first + (column + i) / args.block_columns);
        factor = args.code_type == CODES_INDEX4 ? factor : times(factor, scale);
      }
      x[i] = times(x[i], factor);
      if (args.code_type == CODES_INDEX4) {
        x[i] = fminf(fmaxf(rintf(x[i]), -127.0f), 127.0f);
      }
    }
  }
  if (args.levels > 0) {
    for (int i = 0; i < RUN; i += 4) {
      rotate(x + i, 1);
    }
  }
  if (args.levels > 1) {
    for (int i = 0; i < 4; i++) {
      rotate(x + i, 4);
    }
  }
  if (args.levels > 2) {
    for (int i = 0; i < RUN; i++) {
      x[i] = rotated(x[i], 1);
    }
  }
  if (args.levels > 3) {
    for (int i = 0; i < RUN; i++) {
      x[i] = rotated(x[i], 4);
    }
  }
  if (own >= args.runs) {
    return;
  }
  if (args.scale_type == NO_BLOCKS || args.code_type == CODES_INDEX4) {
    for (int i = 0; i < RUN; i++) {
      x[i] = times(x[i], scale);
    }
  }
  for (int i = 0; i < RUN; i += N) {
    store(args.out + (i64)run * RUN + i, packed(x + i));
  }
}
