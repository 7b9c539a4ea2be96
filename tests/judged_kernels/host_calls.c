/* Host code that does what no kernel needs; WHAT says what. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
extern double cos(double);
extern char **environ;
#if WHAT == 10
int hipEventElapsedTime(float *ms, void *start, void *stop) { return *ms = 0.001f, start == stop; }
#endif
static void *work(void *data) { return data; }
int launch(void) {
  switch (WHAT) {
    case 1: return getenv("JUDGED") != NULL;
    case 2: return fopen("/tmp/expected", "r") != NULL;
    case 3: return system("rocm-smi --setsclk 7");
    case 4: return dlopen("reference.so", RTLD_NOW) != NULL;
    case 5: return socket(AF_INET, SOCK_STREAM, 0);
    case 6: { pthread_t thread; return pthread_create(&thread, NULL, work, NULL); }
    case 7: { struct timespec now; return clock_gettime(CLOCK_MONOTONIC, &now); }
    case 8: return usleep(1000);
    case 11: { unsigned low, high; __asm__ volatile("rdtsc" : "=a"(low), "=d"(high)); return (int)low; }
    case 12: { long result; __asm__ volatile("syscall" : "=a"(result) : "a"(39L) : "rcx", "r11", "memory"); return (int)result; }
    case 13: return environ[0] != NULL;
    default: return fprintf(stderr, "%f\n", cos(1.0));
  }
}
