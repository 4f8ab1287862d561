# Sourced by setup.sh and build.sh: the line on stderr that shows a long step. A terminal shows one line, renewed every second; elsewhere a
# new line is printed every ten seconds, or PENSTOCK_PROGRESS_PERIOD, for tests.
progress_begin=$SECONDS progress_next=$SECONDS progress_period=1 progress_columns=0
if [ -t 2 ]; then
  read -r _ progress_columns < <(stty size <&2 2>/dev/null || echo 24 80)
else
  progress_period=${PENSTOCK_PROGRESS_PERIOD:-10} progress_next=$((SECONDS + progress_period))
fi

# progress_due: whether the line is to be renewed.
progress_due() { ((SECONDS >= progress_next)); }

# progress TEXT: renews the line. The text ends with the time since the step began.
progress() {
  progress_next=$((SECONDS + progress_period))
  local seconds=$((SECONDS - progress_begin)) text
  printf -v text '%s, %d:%02d' "$1" $((seconds / 60)) $((seconds % 60))
  # A reader of the line that is gone does not end the build.
  if [ -t 2 ]; then printf '\r%s\033[K' "${text:0:progress_columns-1}" >&2; else printf '%s\n' "$text" >&2; fi || true
}

# progress_end: removes the line from a terminal.
progress_end() { [ ! -t 2 ] || printf '\r\033[K' >&2 || true; }

# read_or_wait NAME: reads a line into the variable. Returns 1 at the end of the input, and 2 if no whole line came within a second: the
# variable then has what came of it, and the next call goes on.
read_or_wait() {
  local piece status=0
  IFS= read -r -t 1 piece || status=$?
  printf -v "$1" '%s%s' "${!1}" "$piece"
  ((status == 0)) || return $((status > 128 ? 2 : 1))
}
