package cli

import (
	"io"
	"log/slog"
	"os"

	"github.com/posthaste-dev/posthaste/internal/telemetry"
)

// newLog returns a log in the given format: "text", "json", or "" for text on a
// terminal and JSON elsewhere. What is not for a terminal is written in pieces;
// flush writes the last one.
func newLog(w io.Writer, format string, level slog.Level) (log *slog.Logger, flush func()) {
	options := &slog.HandlerOptions{Level: level}
	if isTerminal(w) {
		if format == "json" {
			return slog.New(slog.NewJSONHandler(w, options)), func() {}
		}
		return slog.New(slog.NewTextHandler(w, options)), func() {}
	}
	lines := telemetry.NewLines(w)
	if format == "text" {
		return slog.New(slog.NewTextHandler(lines, options)), lines.Flush
	}
	return slog.New(telemetry.NewJSON(lines, level)), lines.Flush
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
