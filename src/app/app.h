/* app/app.h - what the files of the program share. */
#ifndef FT_APP_H
#define FT_APP_H

#include <lua.h>

#include "script/script.h"

/* What tools/embed.cmake made of lua/, argparse and assets/. */
extern const script_file app_modules[];
extern const script_file app_assets[];

/* Pushes the terminal, a userdata with methods: read(prompt) gives a line without its newline and
 * whether it was pasted, nil at the end of input, false when Ctrl-C dropped the line;
 * remember(line) adds to the history; complete(f) has f say what a line goes on with. `interrupt`
 * is the flag of the signal handler. */
void app_push_reader(lua_State *L, volatile sig_atomic_t *interrupt);

#endif
