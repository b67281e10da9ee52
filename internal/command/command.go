// Package command holds what the commands of bulkhead share: the flags that name a node, its data
// folder and its administrator's token, exit codes, questions, and the values of arguments.
//
// The packages below it hold the commands themselves, by area. They write to the streams of their
// command and return an error, from which [CodeOf] makes the exit code.
package command

import (
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// NeedCommand runs for a command that is only a group of others.
func NeedCommand(cmd *cobra.Command, _ []string) error {
	return cli.Usagef("%s needs a command; see \"%s --help\"", cmd.CommandPath(), cmd.CommandPath())
}

// ParseID parses the number of a wave or entry.
func ParseID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 || strconv.FormatInt(id, 10) != text {
		return 0, cli.Usagef("%.40q is not an ID", text)
	}
	return id, nil
}

// ParseTime reads a date, a time, or a duration or number of days before now.
func ParseTime(text string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.Add(-time.Duration(n) * 24 * time.Hour).UTC(), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d).UTC(), nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{},
		cli.Usagef("%.40q is not a time: want 2006-01-02, 2006-01-02T15:04:05Z, or a time before now like 36h or 30d", text)
}

// ParseWeight reads the weight of a reporter or peer, 0 to 1.
func ParseWeight(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= 1) {
		return 0, cli.Usagef("weight %q is not a number from 0 to 1", text)
	}
	return v, nil
}

// Dash returns s, or "-" for an empty cell of a table.
func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// LoadConfig returns the configuration in a file, or the defaults for "".
func LoadConfig(path string) (*config.Config, error) {
	if path == "" {
		return config.Default(), nil
	}
	return config.Load(path)
}

// NewLogger returns a logger that writes to w in the configured format, and sets level to the
// configured level.
func NewLogger(w io.Writer, cfg *config.Config, level *slog.LevelVar) *slog.Logger {
	SetLevel(level, cfg)
	opts := &slog.HandlerOptions{Level: level}
	if cfg.Node.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// SetLevel sets level to the configured level.
func SetLevel(level *slog.LevelVar, cfg *config.Config) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(cfg.Node.LogLevel)); err == nil { // validated before
		level.Set(l)
	}
}
