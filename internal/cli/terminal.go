package cli

import (
	"io"
	"os"
)

// UseColor reports whether w is a terminal whose user has not asked for plain
// text (no-color.org).
func UseColor(w io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && IsTerminal(w)
}

// IsTerminal reports whether stream, a reader or a writer, is a terminal.
func IsTerminal(stream any) bool {
	if s, wrapped := stream.(*Screen); wrapped {
		stream = s.w
	}
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
