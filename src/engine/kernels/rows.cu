// The element-wise passes between matrix products, each in one pass over memory. One source for NVRTC and
// HIPRTC, compiled once for each kind of number: KIND is 0 for f32, 1 for f16, 2 for bf16.
//
// A row is one token or pixel: `channels` numbers side by side. `blockDim.x` threads share a row, each with V
// pieces of 16 bytes: 2, 4, 8, 16 or 32 of them, with `blockDim.y` rows to a block, or a multiple of 32 and one
// row. All arithmetic is in f32. What a row must meet (pieces that are whole and aligned, sizes) is checked by the
// caller. Needs no headers. The structs of arguments are mirrored in `ops.rs`.

typedef unsigned int u32;
typedef unsigned short u16;
typedef long long i64;

// Lanes are exchanged within 32, whatever the device's own width is.
#if defined(__HIP__) || defined(__HIPCC__)
#define EXCHANGE(x, mask) __shfl_xor(x, mask, 32)
#else
#define EXCHANGE(x, mask) __shfl_xor_sync(0xffffffffu, x, mask, 32)
#endif

// Reads what is not read again, so that it does not push out what is.
#if defined(__HIP__) || defined(__HIPCC__)
#define READ_ONCE(from) (*(from))
#else
#define READ_ONCE(from) __ldcs(from)
#endif

// Two numbers are narrowed by one instruction.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define NARROWS_PAIRS 1
#else
#define NARROWS_PAIRS 0
#endif

#if KIND == 0

typedef float elem;
#define N 4

typedef float4 Piece;

__device__ inline void unpack(float *x, const Piece &piece) {
  x[0] = piece.x, x[1] = piece.y, x[2] = piece.z, x[3] = piece.w;
}

__device__ inline Piece packed(const float *x) {
  Piece piece;
  piece.x = x[0], piece.y = x[1], piece.z = x[2], piece.w = x[3];
  return piece;
}

__device__ inline float widened(elem x) { return x; }
__device__ inline elem narrowed(float x) { return x; }

#else

typedef u16 elem;
#define N 8

#if KIND == 1

#if defined(__HIP__) || defined(__HIPCC__)

__device__ inline float widened(u16 bits) {
  union {
    u16 bits;
    _Float16 number;
  } half;
  half.bits = bits;
  return (float)half.number;
}

__device__ inline u16 narrowed(float x) {
  union {
    u16 bits;
    _Float16 number;
  } half;
  half.number = (_Float16)x;
  return half.bits;
}

#else

__device__ inline float widened(u16 bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}

__device__ inline u16 narrowed(float x) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}

#endif

#else

__device__ inline float widened(u16 bits) { return __uint_as_float((u32)bits << 16); }

// To the nearest, ties to even; what is no number stays none.
__device__ inline u16 narrowed(float x) {
  const u32 bits = __float_as_uint(x);
  const u32 near = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return (bits & 0x7fffffffu) > 0x7f800000u ? (u16)0x7fc0 : (u16)near;
}

#endif

__device__ inline u32 narrowed_pair(float low, float high) {
#if !NARROWS_PAIRS
  return (u32)narrowed(low) | (u32)narrowed(high) << 16;
#else
  u32 pair;
#if KIND == 1
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#else
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#endif
  return pair;
#endif
}

typedef uint4 Piece;

__device__ inline void unpack(float *x, const Piece &piece) {
  const u32 words[4] = {piece.x, piece.y, piece.z, piece.w};
  for (int i = 0; i < 4; i++) {
    x[2 * i] = widened((u16)words[i]);
    x[2 * i + 1] = widened((u16)(words[i] >> 16));
  }
}

__device__ inline Piece packed(const float *x) {
  Piece piece;
  piece.x = narrowed_pair(x[0], x[1]), piece.y = narrowed_pair(x[2], x[3]);
  piece.z = narrowed_pair(x[4], x[5]), piece.w = narrowed_pair(x[6], x[7]);
  return piece;
}

#endif

__device__ inline Piece load(const elem *from) { return *(const Piece *)from; }

__device__ inline Piece load_once(const elem *from) { return READ_ONCE((const Piece *)from); }

__device__ inline void store(elem *to, const Piece &piece) { *(Piece *)to = piece; }

__device__ inline Piece no_piece() {
  Piece piece;
  piece.x = piece.y = piece.z = piece.w = 0;
  return piece;
}

// N parameters, either in f32 or in the kind of the rows.
__device__ inline void load_parameters(float *x, const void *from, i64 first, int is_wide) {
  if (is_wide) {
    const float4 *floats = (const float4 *)((const float *)from + first);
    for (int i = 0; i < N / 4; i++) {
      const float4 four = floats[i];
      x[4 * i] = four.x, x[4 * i + 1] = four.y, x[4 * i + 2] = four.z, x[4 * i + 3] = four.w;
    }
  } else {
    unpack(x, load((const elem *)from + first));
  }
}

// x / (1 + exp(-y)); a fast division gives 0 where the divisor leaves the range of f32, which is the limit.
__device__ inline float times_sigmoid(float x, float y) { return __fdividef(x, 1.0f + __expf(-y)); }

__device__ inline float silu(float x) { return times_sigmoid(x, x); }

// (1 + tanh(u)) / 2 is sigmoid(2 u).
__device__ inline float gelu_tanh(float x) {
  return times_sigmoid(x, 1.5957691216057308f * (x + 0.044715f * x * x * x));
}

__device__ inline float gelu(float x) { return 0.5f * x * (1.0f + erff(0.7071067811865476f * x)); }

// Leaves a thread 96 registers of CUDA's 65536: with more, fewer rows are under way at once.
#define MAX_THREADS 640

// The sum of `x` over the threads of a row; all threads of the block come here together. Calls that follow each
// other give different `slot`s, so that none overwrites what a slower thread still reads.
__device__ inline float row_sum(float x, int slot) {
  const int threads = blockDim.x;
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    if (mask < threads) {
      x += EXCHANGE(x, mask);
    }
  }
  if (threads <= 32) {
    return x;
  }
  __shared__ float partial[2][MAX_THREADS / 32];
  if (threadIdx.x % 32 == 0) {
    partial[slot][threadIdx.x / 32] = x;
  }
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < threads / 32; i++) {
    sum += partial[slot][i];
  }
  return sum;
}

// Factors and offsets of channels, for tokens before `split` in the first row, for the others in the second.
struct Rows {
  const void *at;
  i64 stride;
  u32 split;
  int is_wide;
};

struct NormArgs {
  elem *xs;
  const elem *ys;
  elem *out;
  Rows gate;
  Rows scale;
  Rows shift;
  u32 rows;
  u32 tokens;
  u32 channels;
  float per_channel; // 1 / channels
  float eps;
  float offset;
};

__device__ inline void load_row(float *x, const Rows &rows, u32 token, int first) {
  load_parameters(x, rows.at, (token < rows.split ? 0 : rows.stride) + first, rows.is_wide);
}

// ADD: xs += ys * gate, in place. NORM: out = layer_norm(xs) * (scale + offset) + shift.
template <int V, bool ADD, bool NORM>
__device__ inline void add_and_norm(const NormArgs &args) {
  const u32 row = blockIdx.x * blockDim.y + threadIdx.y;
  const u32 token = row % args.tokens;
  const int channels = row < args.rows ? args.channels : 0;
  const i64 start = (i64)row * args.channels;
  // As they are stored: that leaves room for more rows at once.
  Piece pieces[V];
  float sum = 0.0f;
#pragma unroll
  for (int v = 0; v < V; v++) {
    const int c = (threadIdx.x + v * blockDim.x) * N;
    pieces[v] = no_piece();
    if (c < channels) {
      pieces[v] = ADD ? load_once(args.xs + start + c) : load(args.xs + start + c);
    }
  }
#pragma unroll
  for (int v = 0; v < V; v++) {
    const int c = (threadIdx.x + v * blockDim.x) * N;
    float x[N];
    if (ADD && c < channels) {
      float y[N], gate[N];
      unpack(x, pieces[v]);
      unpack(y, load_once(args.ys + start + c));
      for (int i = 0; i < N; i++) {
        gate[i] = 1.0f;
      }
      if (args.gate.at) {
        load_row(gate, args.gate, token, c);
      }
      for (int i = 0; i < N; i++) {
        x[i] += y[i] * gate[i];
      }
      pieces[v] = packed(x);
      store(args.xs + start + c, pieces[v]);
    }
    if (NORM) {
      unpack(x, pieces[v]);
      for (int i = 0; i < N; i++) {
        sum += x[i];
      }
    }
  }
  if (!NORM) {
    return;
  }
  const float mean = row_sum(sum, 0) * args.per_channel;
  float squares = 0.0f;
#pragma unroll
  for (int v = 0; v < V; v++) {
    if ((threadIdx.x + v * blockDim.x) * N < channels) {
      float x[N];
      unpack(x, pieces[v]);
      for (int i = 0; i < N; i++) {
        squares += (x[i] - mean) * (x[i] - mean);
      }
    }
  }
  const float inverse = rsqrtf(row_sum(squares, 1) * args.per_channel + args.eps);
#pragma unroll
  for (int v = 0; v < V; v++) {
    const int c = (threadIdx.x + v * blockDim.x) * N;
    if (c < channels) {
      float x[N], scale[N], shift[N];
      unpack(x, pieces[v]);
      for (int i = 0; i < N; i++) {
        scale[i] = shift[i] = 0.0f;
      }
      if (args.scale.at) {
        load_row(scale, args.scale, token, c);
      }
      if (args.shift.at) {
        load_row(shift, args.shift, token, c);
      }
      for (int i = 0; i < N; i++) {
        x[i] = (x[i] - mean) * inverse * (scale[i] + args.offset) + shift[i];
      }
      store(args.out + start + c, packed(x));
    }
  }
}

struct RmsArgs {
  const elem *xs;
  elem *out;
  const void *weight;
  // Like `weight`, added behind it; may be null.
  const void *shift;
  // (cos, sin) of each pair of a head, one row a token; may be null.
  const float *turns;
  i64 xs_stride;
  i64 out_stride;
  u32 rows;
  u32 tokens;
  u32 channels;
  u32 head_dim;
  // Rows of one token, side by side at its place, and how many of them share a vector of weights.
  u32 parts;
  u32 sharing;
  // What multiplies the sum of squares, what is added, and what it is at the least.
  float factor;
  float eps;
  float least;
  int is_wide;
  int with_silu;
  // Pairs are half a row apart; the result then lies elsewhere.
  int in_halves;
};

__device__ inline void turn_pair(float *x, float cosine, float sine) {
  const float even = x[0], odd = x[1];
  x[0] = even * cosine - odd * sine;
  x[1] = even * sine + odd * cosine;
}

// N numbers of one head, turned in pairs.
__device__ inline void turn(float *x, const float *turns) {
  for (int i = 0; i < N / 4; i++) {
    const float4 two = ((const float4 *)turns)[i];
    turn_pair(x + 4 * i, two.x, two.y);
    turn_pair(x + 4 * i + 2, two.z, two.w);
  }
}

// `x`: N numbers of a row, as they were read from channel `c` -> normed, scaled and shifted
__device__ inline void scale_row(float *x, const RmsArgs &args, float inverse, i64 first_weight, int c) {
  float weight[N], shift[N];
  if (!args.weight) {
    return;
  }
  load_parameters(weight, args.weight, first_weight + c, args.is_wide);
  for (int i = 0; i < N; i++) {
    shift[i] = 0.0f;
  }
  if (args.shift) {
    load_parameters(shift, args.shift, first_weight + c, args.is_wide);
  }
  for (int i = 0; i < N; i++) {
    x[i] = x[i] * inverse * weight[i] + shift[i];
  }
}

// N numbers of one half of a row, turned with `y`, those of the other half.
__device__ inline void turn_with(float *x, const float *y, const float *turns, float sign) {
  for (int i = 0; i < N / 2; i++) {
    const float4 two = ((const float4 *)turns)[i];
    x[2 * i] = x[2 * i] * two.x + sign * y[2 * i] * two.y;
    x[2 * i + 1] = x[2 * i + 1] * two.z + sign * y[2 * i + 1] * two.w;
  }
}

// Without weights nothing is normed.
template <int V>
__device__ inline void rms(const RmsArgs &args) {
  const u32 row = blockIdx.x * blockDim.y + threadIdx.y;
  const u32 place = row / args.parts;
  const u32 part = row % args.parts;
  const u32 token = place % args.tokens;
  const int channels = row < args.rows ? args.channels : 0;
  const i64 beside = (i64)part * args.channels;
  const i64 first_weight = (i64)(part / args.sharing) * args.channels;
  const elem *from = args.xs + place * args.xs_stride + beside;
  Piece pieces[V];
  float squares = 0.0f;
#pragma unroll
  for (int v = 0; v < V; v++) {
    const int c = (threadIdx.x + v * blockDim.x) * N;
    pieces[v] = c < channels ? load(from + c) : no_piece();
  }
#pragma unroll
  for (int v = 0; v < V; v++) {
    float x[N];
    unpack(x, pieces[v]);
    for (int i = 0; i < N; i++) {
      squares += x[i] * x[i];
    }
  }
  const float inverse = rsqrtf(fmaxf(row_sum(squares, 0) * args.factor + args.eps, args.least));
#pragma unroll
  for (int v = 0; v < V; v++) {
    const int c = (threadIdx.x + v * blockDim.x) * N;
    if (c < channels) {
      float x[N];
      unpack(x, pieces[v]);
      scale_row(x, args, inverse, first_weight, c);
      if (args.in_halves) {
        const int half = args.channels / 2;
        const int other = c < half ? c + half : c - half;
        float y[N];
        unpack(y, load(from + other));
        scale_row(y, args, inverse, first_weight, other);
        turn_with(x, y, args.turns + (i64)token * args.channels + 2 * (c % half), c < half ? -1.0f : 1.0f);
      } else if (args.turns) {
        turn(x, args.turns + (i64)token * args.head_dim + c % args.head_dim);
      }
      if (args.with_silu) {
        for (int i = 0; i < N; i++) {
          x[i] = silu(x[i]);
        }
      }
      store(args.out + place * args.out_stride + beside + c, packed(x));
    }
  }
}

enum Activation { GELU_TANH, SILU, SILU_TIMES, TIMES_SIGMOID, GELU_TIMES };

struct ActivationArgs {
  elem *xs;
  // As many numbers, of the activations of two.
  const elem *ys;
  i64 count;
  // Where rows lie apart: the pieces of a row and the distances of rows, which are whole pieces. Otherwise 0 pieces.
  i64 stride;
  i64 ys_stride;
  u32 row_pieces;
  int what;
};

// How far from the first number the piece lies that begins with number `at`.
__device__ inline i64 piece_at(const ActivationArgs &args, i64 stride, i64 at) {
  if (args.row_pieces == 0) {
    return at;
  }
  const u32 piece = (u32)(at / N);
  return (i64)(piece / args.row_pieces) * stride + (i64)(piece % args.row_pieces) * N;
}

__device__ inline float activated(float x, float y, int what) {
  switch (what) {
  case GELU_TANH:
    return gelu_tanh(x);
  case SILU:
    return silu(x);
  case SILU_TIMES:
    return silu(x) * y;
  case GELU_TIMES:
    return gelu(x) * y;
  default:
    return times_sigmoid(x, y);
  }
}

// In place; two pieces a thread.
__device__ inline void activation(const ActivationArgs &args) {
  const i64 first = ((i64)blockIdx.x * 2 * blockDim.x + threadIdx.x) * N;
  float x[2][N], y[2][N];
#pragma unroll
  for (int v = 0; v < 2; v++) {
    const i64 at = first + (i64)v * blockDim.x * N;
    if (at + N <= args.count) {
      unpack(x[v], load(args.xs + piece_at(args, args.stride, at)));
      if (args.ys) {
        unpack(y[v], load_once(args.ys + piece_at(args, args.ys_stride, at)));
      }
    }
  }
#pragma unroll
  for (int v = 0; v < 2; v++) {
    const i64 at = first + (i64)v * blockDim.x * N;
    if (at + N <= args.count) {
      for (int i = 0; i < N; i++) {
        x[v][i] = activated(x[v][i], args.ys ? y[v][i] : 0.0f, args.what);
      }
      store(args.xs + piece_at(args, args.stride, at), packed(x[v]));
    } else {
      for (i64 i = at; i < args.count; i++) {
        const float beside = args.ys ? widened(args.ys[i]) : 0.0f;
        args.xs[i] = narrowed(activated(widened(args.xs[i]), beside, args.what));
      }
    }
  }
}

#define KERNEL extern "C" __global__ void __launch_bounds__(MAX_THREADS)

#define ROW_KERNELS(V)                                                                                                 \
  KERNEL add_##V(NormArgs args) { add_and_norm<V, true, false>(args); }                                                \
  KERNEL norm_##V(NormArgs args) { add_and_norm<V, false, true>(args); }                                               \
  KERNEL add_norm_##V(NormArgs args) { add_and_norm<V, true, true>(args); }                                            \
  KERNEL rms_##V(RmsArgs args) { rms<V>(args); }

ROW_KERNELS(1)
ROW_KERNELS(2)
ROW_KERNELS(3)
ROW_KERNELS(4)
ROW_KERNELS(5)
ROW_KERNELS(8)

KERNEL activate(ActivationArgs args) { activation(args); }
