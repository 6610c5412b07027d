package cli

import (
	"io"
	"log/slog"
	"os"
)

// newLog returns a log in the given format: "text", "json", or "" for text on a
// terminal and JSON elsewhere.
func newLog(w io.Writer, format string, level slog.Level) *slog.Logger {
	if format == "" {
		format = "json"
		if isTerminal(w) {
			format = "text"
		}
	}
	options := &slog.HandlerOptions{Level: level}
	if format == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// isTerminal takes every character device for a terminal. That is true of
// /dev/null too, where the form of the lines does not matter.
func isTerminal(w io.Writer) bool {
	file, isFile := w.(*os.File)
	if !isFile {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
