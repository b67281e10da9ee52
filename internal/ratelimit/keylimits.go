package ratelimit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// The bounds on limits of single keys.
const (
	maxKeyLimits  = 1 << 20
	maxLimitsFile = 128 << 20 // bytes
	maxLimit      = 1e15
)

// Words that can replace the number of a limit.
const (
	measureWord = "measure" // the key is counted and never over the limit
	blockWord   = "block"   // every event of the key is over the limit
)

// keyLimits holds the limits of single keys by the hashes of the keys.
type keyLimits map[uint64]*filter.UniqueRate

// limitReader reads keyLimits from text.
type limitReader struct {
	rule  *rule
	rates map[float64]*filter.UniqueRate // one for each limit read so far
	keys  keyLimits
}

// line adds the limit of one key: "KEY LIMIT". The last field is the limit, so the key may contain
// blanks. As in Postfix's tables, a comment needs a line of its own: the last word of a comment
// after a limit would be taken for the limit.
func (l *limitReader) line(text string) error {
	text = strings.TrimSpace(text)
	if text == "" || text[0] == '#' {
		return nil
	}
	if !utf8.ValidString(text) {
		return fmt.Errorf("%.60q is not UTF-8", text)
	}
	if at := strings.Index(strings.ReplaceAll(text, "\t", " "), " #"); at >= 0 {
		return fmt.Errorf("%.60q after a limit: a comment must be on a line of its own, which begins with #", text[at+1:])
	}
	i := strings.LastIndexAny(text, " \t")
	if i < 0 {
		return fmt.Errorf("%.60q is not a key and a limit", text)
	}
	rate, err := l.rate(text[i+1:])
	if err != nil {
		return err
	}
	key := strings.TrimSpace(text[:i])
	hash := l.rule.hash(folded(key))
	if _, ok := l.keys[hash]; ok {
		return fmt.Errorf("key %.60q has two limits", key)
	}
	if len(l.keys) >= maxKeyLimits {
		return fmt.Errorf("more than %d keys", maxKeyLimits)
	}
	l.keys[hash] = rate
	return nil
}

func (l *limitReader) rate(text string) (*filter.UniqueRate, error) {
	switch text {
	case measureWord:
		return l.rule.measuring, l.fits(text, l.rule.measuring)
	case blockWord:
		return l.rule.blocking, nil
	}
	limit, ok := parseAmount([]byte(text))
	if !ok || limit == 0 || limit > maxLimit {
		return nil, fmt.Errorf("limit %.40q is none of %s, %s and a number above 0", text, measureWord, blockWord)
	}
	if rate := l.rates[limit]; rate != nil {
		return rate, nil
	}
	rate, err := l.rule.blocking.WithLimit(limit)
	if err != nil {
		return nil, err
	}
	l.rates[limit] = rate
	return rate, l.fits(text, rate)
}

// fits returns an error if the rule's memory has no room for at least a few keys at the limit.
func (l *limitReader) fits(text string, rate *filter.UniqueRate) error {
	room := l.rule.largeRoom()
	if size := int64(rate.MaxStateBytes()); size > int64(rate.StateBytes()) && size > room/minLarge {
		return fmt.Errorf("limit %s takes up to %d bytes for a key, of %d that memory_bytes leaves; want room for %d keys",
			text, size, room, minLarge)
	}
	return nil
}

// largeRoom returns the rule's memory for large states, in bytes.
func (r *rule) largeRoom() int64 { return r.Memory - r.Memory/4 }

// limitsKeys reports whether keys may have limits of their own.
func (r *Rule) limitsKeys() bool { return len(r.Limits) > 0 || r.LimitsFile != "" }

// readLimits reads the limits of single keys from the rule and its file. It does not modify r.
func (r *rule) readLimits() (keyLimits, error) {
	l := limitReader{rule: r, rates: make(map[float64]*filter.UniqueRate), keys: make(keyLimits)}
	for i, text := range r.Limits {
		if strings.ContainsAny(text, "\r\n") || strings.HasPrefix(strings.TrimSpace(text), "#") ||
			strings.TrimSpace(text) == "" {
			return nil, fmt.Errorf("limits: %.60q is not a key and a limit", text)
		}
		if err := l.line(text); err != nil {
			return nil, fmt.Errorf("limits: entry %d: %w", i+1, err)
		}
	}
	if r.LimitsFile == "" {
		return l.keys, nil
	}
	f, err := os.Open(r.LimitsFile)
	if err != nil {
		return nil, fmt.Errorf("limits_file: %w", err)
	}
	defer f.Close()
	if err := l.file(f); err != nil {
		return nil, fmt.Errorf("limits_file: %s: %w", r.LimitsFile, err)
	}
	return l.keys, nil
}

// file reads one limit from each line.
func (l *limitReader) file(f io.Reader) error {
	in := bufio.NewScanner(io.LimitReader(f, maxLimitsFile+1))
	in.Buffer(nil, filter.MaxRateKey+64)
	read := 0
	for n := 1; in.Scan(); n++ {
		if read += len(in.Bytes()) + 1; read > maxLimitsFile {
			return fmt.Errorf("more than %d bytes", maxLimitsFile)
		}
		if err := l.line(in.Text()); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a line of more than %d bytes", filter.MaxRateKey+64)
	}
	return in.Err()
}

// watchLimits reads limit files that have changed. A file that cannot be read is logged, and the
// limits stay as they were.
func (l *Limiter) watchLimits() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range *l.rules.Load() {
		now := wholefile.StampOf(r.LimitsFile)
		if r.LimitsFile == "" || r.stamp.Same(now) {
			continue
		}
		r.stamp = now
		keys, err := r.readLimits()
		if err != nil {
			l.Stats.Faults.Add(1)
			l.opts.Log.Warn("limits of keys stay as they were", "rule", r.Name, "err", err)
			continue
		}
		r.byKey.Store(&keys)
		l.opts.Log.Info("limits of keys read", "rule", r.Name, "keys", len(keys))
	}
}

// rateOf returns the rate that applies to one key.
func (r *rule) rateOf(hash uint64) *filter.UniqueRate {
	if keys := r.byKey.Load(); keys != nil {
		if rate := (*keys)[hash]; rate != nil {
			return rate
		}
	}
	return r.rate
}

// maxDigits limits the length of a number's text.
const maxDigits = 40

// parseAmount parses a decimal number from 0 to 2^53, with or without a fraction. It accepts no
// sign, exponent, blank, or name of a number.
func parseAmount(text []byte) (float64, bool) {
	whole, fraction, point := bytes.Cut(text, []byte{'.'})
	if len(text) > maxDigits || len(whole) == 0 || point && len(fraction) == 0 || !digits(whole) || !digits(fraction) {
		return 0, false
	}
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil || n > 1<<53 || n == 1<<53 && !exact(whole, fraction) {
		return 0, false
	}
	return n, true
}

// exact reports whether a number that parses as 2^53 is not larger than that.
func exact(whole, fraction []byte) bool {
	n, err := strconv.ParseUint(string(whole), 10, 64)
	return err == nil && n <= 1<<53 && (n < 1<<53 || len(bytes.Trim(fraction, "0")) == 0)
}

func digits(text []byte) bool { return len(bytes.Trim(text, "0123456789")) == 0 }
