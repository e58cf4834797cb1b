// hiprtc LIBRARY SOURCE OUT OPTION...: compiles SOURCE to OUT with the HIPRTC in LIBRARY, by the calls that the engine
// makes (`src/engine/kernels/driver.rs`). Exit code 2: it did not compile; HIPRTC's log is on standard error.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void end(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(2);
}

static void *symbol(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (!found) {
    end(name, "HIPRTC does not have it");
  }
  return found;
}

typedef void *Program;
typedef int (*Size)(Program, size_t *);
typedef int (*Bytes)(Program, char *);

// What two functions of HIPRTC say together: how long something is, and the thing itself.
static char *bytes_of(void *library, Program program, const char *size_name, const char *name, size_t *len) {
  Size size = (Size)symbol(library, size_name);
  Bytes fill = (Bytes)symbol(library, name);
  if (size(program, len)) {
    end(size_name, "it failed");
  }
  char *bytes = calloc(*len + 1, 1);
  if (!bytes || fill(program, bytes)) {
    end(name, "it failed");
  }
  return bytes;
}

static char *text_of(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) {
    end(path, "it cannot be read");
  }
  fseek(file, 0, SEEK_END);
  const long len = ftell(file);
  rewind(file);
  char *text = calloc(len + 1, 1);
  if (!text || fread(text, 1, len, file) != (size_t)len) {
    end(path, "it cannot be read");
  }
  fclose(file);
  return text;
}

int main(int count, char **words) {
  if (count < 4) {
    end("hiprtc", "LIBRARY SOURCE OUT OPTION...");
  }
  void *library = dlopen(words[1], RTLD_NOW);
  if (!library) {
    end(words[1], dlerror());
  }
  int (*create)(Program *, const char *, const char *, int, char **, char **) = symbol(library, "hiprtcCreateProgram");
  int (*compile)(Program, int, char **) = symbol(library, "hiprtcCompileProgram");
  Program program = NULL;
  size_t len = 0;
  if (create(&program, text_of(words[2]), "rows.cu", 0, NULL, NULL)) {
    end("hiprtcCreateProgram", "it failed");
  }
  if (compile(program, count - 4, words + 4)) {
    end("it does not compile", bytes_of(library, program, "hiprtcGetProgramLogSize", "hiprtcGetProgramLog", &len));
  }
  const char *code = bytes_of(library, program, "hiprtcGetCodeSize", "hiprtcGetCode", &len);
  FILE *out = fopen(words[3], "wb");
  if (!out || fwrite(code, 1, len, out) != len || fclose(out)) {
    end(words[3], "it cannot be written");
  }
  return 0;
}
