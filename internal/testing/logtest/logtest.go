// Package logtest lets a test read a log that other goroutines write.
package logtest

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// A Log holds what was written to it. The zero value is empty. Its methods may be called concurrently.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Logger returns a logger that writes lines of text to the log.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Write implements [io.Writer].
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns what the log holds.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Take returns what the log holds, and empties it.
func (l *Log) Take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

// Has reports whether the log holds a text.
func (l *Log) Has(text string) bool { return strings.Contains(l.String(), text) }

// Count returns how often the log holds a text.
func (l *Log) Count(text string) int { return strings.Count(l.String(), text) }
