// The passes of autoencoders over images whose channels lie side by side. Compiled behind `rows.cu`, whose types
// and helpers it uses. The structs of arguments are mirrored in `pixels.rs`.
//
// `blockDim.x` threads share a pixel, each with one piece of its channels, and `blockDim.y` pixels are under way at
// once; together they are PIXEL_THREADS at the most.

#define PIXEL_THREADS 256

// Pieces that a thread asks for before it uses the first.
#define PIXELS_AHEAD 4

struct MomentsArgs {
  const elem *xs;
  // Of each part: (parts, channels)
  float *means;
  float *variances;
  i64 pixels;
  u32 channels;
  // Pixels of each part but the last, which may have fewer.
  u32 per_part;
};

// Mean and variance of each channel in one part of the pixels, which is a block's. Squares are taken from the part's
// first pixel, so that large numbers that hardly differ do not cancel.
KERNEL channel_moments(MomentsArgs args) {
  __shared__ float shared[2][N][PIXEL_THREADS];
  const int c = threadIdx.x * N;
  const i64 first = (i64)blockIdx.x * args.per_part;
  const i64 left = args.pixels - first;
  const u32 count = left < args.per_part ? (u32)left : args.per_part;
  const elem *xs = args.xs + first * args.channels + c;
  float pivot[N], sum[N], squares[N];
  unpack(pivot, load(xs));
  for (int i = 0; i < N; i++) {
    sum[i] = squares[i] = 0.0f;
  }
  for (u32 start = threadIdx.y; start < count; start += PIXELS_AHEAD * blockDim.y) {
    Piece pieces[PIXELS_AHEAD];
#pragma unroll
    for (int k = 0; k < PIXELS_AHEAD; k++) {
      const u32 pixel = start + k * blockDim.y;
      if (pixel < count) {
        pieces[k] = load(xs + (i64)pixel * args.channels);
      }
    }
#pragma unroll
    for (int k = 0; k < PIXELS_AHEAD; k++) {
      if (start + k * blockDim.y < count) {
        float x[N];
        unpack(x, pieces[k]);
        for (int i = 0; i < N; i++) {
          const float off = x[i] - pivot[i];
          sum[i] += off;
          squares[i] += off * off;
        }
      }
    }
  }
  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
  for (int i = 0; i < N; i++) {
    shared[0][i][thread] = sum[i];
    shared[1][i][thread] = squares[i];
  }
  __syncthreads();
  if (threadIdx.y > 0) {
    return;
  }
  const float share = 1.0f / count;
  const i64 place = (i64)blockIdx.x * args.channels + c;
  for (int i = 0; i < N; i++) {
    for (int y = 1; y < blockDim.y; y++) {
      sum[i] += shared[0][i][y * blockDim.x + threadIdx.x];
      squares[i] += shared[1][i][y * blockDim.x + threadIdx.x];
    }
    const float off = sum[i] * share;
    args.means[place + i] = pivot[i] + off;
    args.variances[place + i] = fmaxf(squares[i] * share - off * off, 0.0f);
  }
}

// Threads of a block of `join_moments`: along the channels and over parts.
#define JOINED_CHANNELS 32
#define JOINED_PARTS 16

struct JoinArgs {
  const float *means;
  const float *variances;
  // Of all pixels: (channels)
  float *mean;
  float *variance;
  i64 pixels;
  u32 channels;
  u32 parts;
  u32 per_part;
};

__device__ inline float over_parts(float x, float (*shared)[JOINED_CHANNELS]) {
  __syncthreads();
  shared[threadIdx.y][threadIdx.x] = x;
  __syncthreads();
  float sum = 0.0f;
  for (int y = 0; y < JOINED_PARTS; y++) {
    sum += shared[y][threadIdx.x];
  }
  return sum;
}

KERNEL join_moments(JoinArgs args) {
  __shared__ float shared[JOINED_PARTS][JOINED_CHANNELS];
  const u32 c = blockIdx.x * JOINED_CHANNELS + threadIdx.x;
  // Threads without a channel only wait with the others.
  const u32 parts = c < args.channels ? args.parts : 0;
  const float share = (float)args.per_part / args.pixels;
  const float last_share = (float)(args.pixels - (i64)(args.parts - 1) * args.per_part) / args.pixels;
  float sum = 0.0f;
#pragma unroll 4
  for (u32 i = threadIdx.y; i < parts; i += JOINED_PARTS) {
    sum += args.means[(i64)i * args.channels + c] * (i + 1 < parts ? share : last_share);
  }
  const float mean = over_parts(sum, shared);
  float spread = 0.0f;
#pragma unroll 4
  for (u32 i = threadIdx.y; i < parts; i += JOINED_PARTS) {
    const i64 place = (i64)i * args.channels + c;
    const float off = args.means[place] - mean;
    spread += (args.variances[place] + off * off) * (i + 1 < parts ? share : last_share);
  }
  const float variance = over_parts(spread, shared);
  if (threadIdx.y == 0 && c < args.channels) {
    args.mean[c] = mean;
    args.variance[c] = variance;
  }
}

struct AffineArgs {
  const elem *xs;
  const elem *ys;
  elem *out;
  // Of each channel; each may be null, and so may `ys`.
  const float *scale;
  const float *shift;
  i64 pixels;
  u32 channels;
  int with_silu;
};

// out = xs * scale + shift + ys, then SiLU where it is asked for. `out` may be `xs`.
KERNEL affine(AffineArgs args) {
  const int c = threadIdx.x * N;
  const i64 first = (i64)blockIdx.x * PIXELS_AHEAD * blockDim.y + threadIdx.y;
  Piece pieces[PIXELS_AHEAD], others[PIXELS_AHEAD];
#pragma unroll
  for (int k = 0; k < PIXELS_AHEAD; k++) {
    const i64 pixel = first + k * blockDim.y;
    if (pixel < args.pixels) {
      pieces[k] = load_once(args.xs + pixel * args.channels + c);
      others[k] = args.ys ? load_once(args.ys + pixel * args.channels + c) : no_piece();
    }
  }
  float scale[N], shift[N];
  for (int i = 0; i < N; i++) {
    scale[i] = 1.0f, shift[i] = 0.0f;
  }
  if (args.scale) {
    load_parameters(scale, args.scale, c, 1);
  }
  if (args.shift) {
    load_parameters(shift, args.shift, c, 1);
  }
#pragma unroll
  for (int k = 0; k < PIXELS_AHEAD; k++) {
    const i64 pixel = first + k * blockDim.y;
    if (pixel < args.pixels) {
      float x[N], y[N];
      unpack(x, pieces[k]);
      unpack(y, others[k]);
      for (int i = 0; i < N; i++) {
        x[i] = x[i] * scale[i] + shift[i] + y[i];
        x[i] = args.with_silu ? silu(x[i]) : x[i];
      }
      store(args.out + pixel * args.channels + c, packed(x));
    }
  }
}

struct PlaceArgs {
  // (frames, height + 1, width + 1, 4 * channels)
  const elem *corners;
  // (frames, 2 * height, 2 * width, channels)
  elem *out;
  // Of each channel; may be null.
  const float *bias;
  // Of `out`.
  i64 pixels;
  u32 height;
  u32 width;
  u32 channels;
};

// Puts the four pixels that one becomes where they belong, see `vae/doubling.rs`.
KERNEL place_corners(PlaceArgs args) {
  const int c = threadIdx.x * N;
  const i64 first = (i64)blockIdx.x * PIXELS_AHEAD * blockDim.y + threadIdx.y;
  Piece pieces[PIXELS_AHEAD];
#pragma unroll
  for (int k = 0; k < PIXELS_AHEAD; k++) {
    const i64 pixel = first + k * blockDim.y;
    if (pixel < args.pixels) {
      const i64 line = pixel / (2 * args.width);
      const u32 x = (u32)(pixel % (2 * args.width));
      const i64 frame = line / (2 * args.height);
      const u32 y = (u32)(line % (2 * args.height));
      const i64 row = frame * (args.height + 1) + y / 2 + y % 2;
      const i64 from = row * (args.width + 1) + x / 2 + x % 2;
      const u32 corner = y % 2 * 2 + x % 2;
      pieces[k] = load_once(args.corners + (from * 4 + corner) * args.channels + c);
    }
  }
  float bias[N];
  for (int i = 0; i < N; i++) {
    bias[i] = 0.0f;
  }
  if (args.bias) {
    load_parameters(bias, args.bias, c, 1);
  }
#pragma unroll
  for (int k = 0; k < PIXELS_AHEAD; k++) {
    const i64 pixel = first + k * blockDim.y;
    if (pixel < args.pixels) {
      float x[N];
      unpack(x, pieces[k]);
      for (int i = 0; i < N; i++) {
        x[i] += bias[i];
      }
      store(args.out + pixel * args.channels + c, packed(x));
    }
  }
}

struct SoftmaxArgs {
  // (rows, columns), without gaps
  const float *scores;
  elem *out;
  u32 columns;
  float scale;
};

// The largest `x` of the block's threads, which are whole groups of 32.
__device__ inline float block_max(float x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    x = fmaxf(x, EXCHANGE(x, mask));
  }
  __shared__ float partial[MAX_THREADS / 32];
  if (threadIdx.x % 32 == 0) {
    partial[threadIdx.x / 32] = x;
  }
  __syncthreads();
  for (int i = 0; i < blockDim.x / 32; i++) {
    x = fmaxf(x, partial[i]);
  }
  return x;
}

// softmax(scores * scale) of a row a block, from f32 to the kind of the images.
KERNEL softmax(SoftmaxArgs args) {
  const float *scores = args.scores + (i64)blockIdx.x * args.columns;
  elem *out = args.out + (i64)blockIdx.x * args.columns;
  const int step = blockDim.x * 4;
  float most = -1e30f, sum = 0.0f;
#pragma unroll 4
  for (int c = threadIdx.x * 4; c < args.columns; c += step) {
    const float4 x = *(const float4 *)(scores + c);
    const float next = fmaxf(most, fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w)) * args.scale);
    sum = sum * __expf(most - next) + __expf(x.x * args.scale - next) + __expf(x.y * args.scale - next) +
          __expf(x.z * args.scale - next) + __expf(x.w * args.scale - next);
    most = next;
  }
  const float all_most = block_max(most);
  const float inverse = 1.0f / row_sum(sum * __expf(most - all_most), 0);
#pragma unroll 2
  for (int c = threadIdx.x * N; c < args.columns; c += blockDim.x * N) {
    float x[N];
    for (int i = 0; i < N / 4; i++) {
      const float4 four = *(const float4 *)(scores + c + 4 * i);
      x[4 * i] = four.x, x[4 * i + 1] = four.y, x[4 * i + 2] = four.z, x[4 * i + 3] = four.w;
    }
    for (int i = 0; i < N; i++) {
      x[i] = __expf(x[i] * args.scale - all_most) * inverse;
    }
    store(out + c, packed(x));
  }
}
