// The element-wise passes between matrix products, each in one pass over memory. One source for NVRTC and
// HIPRTC, compiled once for each kind of number: KIND is 0 for f32, 1 for f16, 2 for bf16.
//
// A row is one token or pixel: `channels` numbers side by side. `blockDim.x` threads share a row, each with V
// pieces of 16 bytes; `blockDim.y` rows share a block. All arithmetic is in f32. What a row must meet (pieces
// that are whole and aligned, sizes) is checked by the caller.
// Uses no shuffles and no headers: so lanes may be 32 or 64, and both compilers take it.
// The structs of arguments are mirrored in `ops.rs`.

typedef unsigned int u32;
typedef unsigned short u16;
typedef long long i64;

#if KIND == 0

typedef float elem;
#define N 4

__device__ inline void load(float *x, const elem *from) {
  const float4 piece = *(const float4 *)from;
  x[0] = piece.x, x[1] = piece.y, x[2] = piece.z, x[3] = piece.w;
}

__device__ inline void store(elem *to, const float *x) {
  float4 piece;
  piece.x = x[0], piece.y = x[1], piece.z = x[2], piece.w = x[3];
  *(float4 *)to = piece;
}

__device__ inline float widened(elem x) { return x; }
__device__ inline elem narrowed(float x) { return x; }
__device__ inline float rounded(float x) { return x; }

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

__device__ inline float rounded(float x) { return widened(narrowed(x)); }

__device__ inline void load(float *x, const elem *from) {
  const uint4 piece = *(const uint4 *)from;
  const u32 words[4] = {piece.x, piece.y, piece.z, piece.w};
  for (int i = 0; i < 4; i++) {
    x[2 * i] = widened((u16)words[i]);
    x[2 * i + 1] = widened((u16)(words[i] >> 16));
  }
}

__device__ inline void store(elem *to, const float *x) {
  u32 words[4];
  for (int i = 0; i < 4; i++) {
    words[i] = (u32)narrowed(x[2 * i]) | (u32)narrowed(x[2 * i + 1]) << 16;
  }
  uint4 piece;
  piece.x = words[0], piece.y = words[1], piece.z = words[2], piece.w = words[3];
  *(uint4 *)to = piece;
}

#endif

// N parameters, either in f32 or in the kind of the rows.
__device__ inline void load_parameters(float *x, const void *from, i64 first, int is_wide) {
  if (is_wide) {
    const float4 *floats = (const float4 *)((const float *)from + first);
    for (int i = 0; i < N / 4; i++) {
      const float4 four = floats[i];
      x[4 * i] = four.x, x[4 * i + 1] = four.y, x[4 * i + 2] = four.z, x[4 * i + 3] = four.w;
    }
  } else {
    load(x, (const elem *)from + first);
  }
}

// x / (1 + exp(-y)); a fast division gives 0 where the divisor leaves the range of f32, which is the limit.
__device__ inline float times_sigmoid(float x, float y) { return __fdividef(x, 1.0f + __expf(-y)); }

__device__ inline float silu(float x) { return times_sigmoid(x, x); }

// (1 + tanh(u)) / 2 is sigmoid(2 u).
__device__ inline float gelu_tanh(float x) {
  return times_sigmoid(x, 1.5957691216057308f * (x + 0.044715f * x * x * x));
}

#define MAX_THREADS 512

// The sum of `x` over the threads of a row. All threads of the block come here together. More than 32 threads a
// row are a block of one row.
__device__ inline float row_sum(float x) {
  __shared__ float partial[MAX_THREADS];
  const int threads = blockDim.x;
  const int lane = threadIdx.x;
  float *mine = partial + threadIdx.y * threads;
  __syncthreads(); // The sum before this one has been read.
  mine[lane] = x;
  __syncthreads();
  float sum = 0.0f;
  if (threads <= 32) {
    for (int i = 0; i < threads; i++) {
      sum += mine[i];
    }
    return sum;
  }
  if (lane < 32) {
    for (int i = lane; i < threads; i += 32) {
      sum += mine[i];
    }
  }
  __syncthreads();
  if (lane < 32) {
    mine[lane] = sum;
  }
  __syncthreads();
  sum = 0.0f;
  for (int i = 0; i < 32; i++) {
    sum += mine[i];
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
  const int channels = args.channels;
  const i64 start = (i64)row * channels;
  float x[V][N];
  float sum = 0.0f;
#pragma unroll
  for (int v = 0; v < V; v++) {
    const int c = (threadIdx.x + v * blockDim.x) * N;
    const bool is_live = row < args.rows && c < channels;
    if (!is_live) {
      for (int i = 0; i < N; i++) {
        x[v][i] = 0.0f;
      }
      continue;
    }
    load(x[v], args.xs + start + c);
    if (ADD) {
      float y[N], gate[N];
      load(y, args.ys + start + c);
      for (int i = 0; i < N; i++) {
        gate[i] = 1.0f;
      }
      if (args.gate.at) {
        load_row(gate, args.gate, token, c);
      }
      for (int i = 0; i < N; i++) {
        x[v][i] = rounded(x[v][i] + y[i] * gate[i]);
      }
      store(args.xs + start + c, x[v]);
    }
    for (int i = 0; i < N; i++) {
      sum += x[v][i];
    }
  }
  if (!NORM) {
    return;
  }
  const float mean = row_sum(sum) / channels;
  float squares = 0.0f;
#pragma unroll
  for (int v = 0; v < V; v++) {
    if ((threadIdx.x + v * blockDim.x) * N < channels) {
      for (int i = 0; i < N; i++) {
        x[v][i] -= mean;
        squares += x[v][i] * x[v][i];
      }
    }
  }
  const float inverse = rsqrtf(row_sum(squares) / channels + args.eps);
#pragma unroll
  for (int v = 0; v < V; v++) {
    const int c = (threadIdx.x + v * blockDim.x) * N;
    if (row < args.rows && c < channels) {
      float scale[N], shift[N];
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
        x[v][i] = x[v][i] * inverse * (scale[i] + args.offset) + shift[i];
      }
      store(args.out + start + c, x[v]);
    }
  }
}

struct RmsArgs {
  const elem *xs;
  elem *out;
  const void *weight;
  // (cos, sin) of each pair of a head, one row a token; may be null.
  const float *turns;
  i64 xs_stride;
  i64 out_stride;
  u32 rows;
  u32 tokens;
  u32 channels;
  u32 head_dim;
  float eps;
  int is_wide;
  // Divide by the length instead of the root mean square.
  int by_length;
  int with_silu;
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

template <int V>
__device__ inline void rms(const RmsArgs &args) {
  const u32 row = blockIdx.x * blockDim.y + threadIdx.y;
  const u32 token = row % args.tokens;
  const int channels = args.channels;
  float x[V][N];
  float squares = 0.0f;
#pragma unroll
  for (int v = 0; v < V; v++) {
    const int c = (threadIdx.x + v * blockDim.x) * N;
    if (row < args.rows && c < channels) {
      load(x[v], args.xs + row * args.xs_stride + c);
      for (int i = 0; i < N; i++) {
        squares += x[v][i] * x[v][i];
      }
    }
  }
  const float sum = row_sum(squares);
  const float inverse = args.by_length ? 1.0f / fmaxf(sqrtf(sum), args.eps) : rsqrtf(sum / channels + args.eps);
#pragma unroll
  for (int v = 0; v < V; v++) {
    const int c = (threadIdx.x + v * blockDim.x) * N;
    if (row < args.rows && c < channels) {
      float weight[N];
      load_parameters(weight, args.weight, c, args.is_wide);
      for (int i = 0; i < N; i++) {
        x[v][i] = x[v][i] * inverse * weight[i];
      }
      if (args.turns) {
        turn(x[v], args.turns + (i64)token * args.head_dim + c % args.head_dim);
      }
      if (args.with_silu) {
        for (int i = 0; i < N; i++) {
          x[v][i] = silu(x[v][i]);
        }
      }
      store(args.out + row * args.out_stride + c, x[v]);
    }
  }
}

struct ActivationArgs {
  elem *xs;
  i64 count;
  int is_silu;
};

__device__ inline float activated(float x, int is_silu) { return is_silu ? silu(x) : gelu_tanh(x); }

// In place; two pieces a thread.
__device__ inline void activation(const ActivationArgs &args) {
  const i64 first = ((i64)blockIdx.x * 2 * blockDim.x + threadIdx.x) * N;
  float x[2][N];
#pragma unroll
  for (int v = 0; v < 2; v++) {
    const i64 at = first + (i64)v * blockDim.x * N;
    if (at + N <= args.count) {
      load(x[v], args.xs + at);
    }
  }
#pragma unroll
  for (int v = 0; v < 2; v++) {
    const i64 at = first + (i64)v * blockDim.x * N;
    if (at + N <= args.count) {
      for (int i = 0; i < N; i++) {
        x[v][i] = activated(x[v][i], args.is_silu);
      }
      store(args.xs + at, x[v]);
    } else {
      for (i64 i = at; i < args.count; i++) {
        args.xs[i] = narrowed(activated(widened(args.xs[i]), args.is_silu));
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

KERNEL activate(ActivationArgs args) { activation(args); }
