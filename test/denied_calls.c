/* Refuses system calls in a program that starts with this in LD_PRELOAD. It does so from its constructor
   on: the dynamic loader has done its part by then, and so all that is refused is the program's own.

   DENIED_CALL="NUMBER ERRNO" or "NUMBER ERRNO ARGUMENT VALUE", several with ";" between them: the call of this
   number, or only where its argument (counted from 0; its low 32 bits) has this value, answers with this
   errno. */

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { denied_max = 16, each = 6 };

__attribute__((constructor)) static void deny(void) {
  struct sock_filter program[denied_max * each + 1];
  unsigned short length = 0;
  const char* text = getenv("DENIED_CALL");
  for (; text != NULL && length < denied_max * each; text = strchr(text, ';')) {
    if (*text == ';') ++text;
    unsigned number = 0, error = 0, argument = 0, value = 0;
    const int words = sscanf(text, "%u %u %u %u", &number, &error, &argument, &value);
    if (words != 2 && words != 4) break;
    const struct sock_filter one[each] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, each - 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                 (unsigned)(offsetof(struct seccomp_data, args) + 8 * argument)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, words == 2 ? 1 : 0),
        BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
    };
    for (int i = 0; i < each; ++i) program[length++] = one[i];
  }
  if (length == 0) return;
  program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_fprog filter = {length, program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    _exit(77);
}
