/* A crash of the emulator itself is a mistake of ours, whatever the kernel does: who sees it is told so, and where. */
#include "crash.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__thread CrashPlace crash_place;

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { SIGNALS = sizeof signals / sizeof *signals };
static struct sigaction before[SIGNALS];
static int errors = STDERR_FILENO;

static void on_signal(int number) {
  const Wave *wave = crash_place.wave;
  if (wave || crash_place.doing) {
    char text[1024];
    const char *at = wave && wave->next ? wave->code->instructions[wave->next - 1].text : "";
    int length = snprintf(text, sizeof text,
                          "\na bug in ckwatch's emulator, not in the kernel (signal %d while %s %s%s%s): please report it, "
                          "with the program or artifact and what `ckwatch doctor` prints\n",
                          number, wave ? "executing" : crash_place.doing,
                          wave ? wave->launch->kernel->name : "", wave ? ", " : "", at);
    size_t size = length < (int)sizeof text ? (size_t)length : sizeof text - 1;
    if (write(errors, text, size) < 0) { /* nobody listens */ }
  }
  /* What was there before takes it, when the instruction is executed again. */
  for (int n = 0; n < SIGNALS; n++)
    if (signals[n] == number) sigaction(number, &before[n], NULL);
  if (number == SIGABRT) raise(number);
}

static void install(void) {
  const char *told = getenv("CKWATCH_EMULATOR_ERRORS");
  if (told && *told) errors = atoi(told);
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
  for (int n = 0; n < SIGNALS; n++) sigaction(signals[n], &action, &before[n]);
}

void tell_of_crashes(void) {
  static pthread_once_t installed = PTHREAD_ONCE_INIT;
  pthread_once(&installed, install);
}
