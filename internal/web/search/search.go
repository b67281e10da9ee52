// Package search reads the search line of the messages: words such as from:example.com and verdict:spam,
// of which all must hold.
//
//	q, err := search.Parse("verdict:caught since:24h shop.example", now)
//	page, err := node.History(ctx, q)
package search

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// MaxLine is the length of the longest line that Parse reads, bytes.
const MaxLine = 2000

// A Word is a kind of word of the line.
type Word struct {
	Key     string   // before the colon
	Meaning string   // in a few words
	Values  []string // values to offer; nil: any text
}

// Words returns the kinds of words, in the order in which a help shows them.
func Words() []Word {
	return []Word{
		{"verdict", "answer to a check", []string{"spam", "suspected", "bulk", "good", "unknown", "caught"}},
		{"is", "what became of it", []string{"caught", "reported", "complained", "waiting"}},
		{"from", "domain of the sender", nil},
		{"link", "domain of a link", nil},
		{"door", "door through which it came", nil},
		{"by", "account, user or network that voted", nil},
		{"domain", "domain of the sender or of a link", nil},
		{"id", "Message-ID", nil},
		{"kind", "check or vote", []string{"check", "sighting", "spam", "ham", "revoke"}},
		{"since", "a time such as 24h, 7d or 2026-01-31", []string{"1h", "24h", "7d"}},
		{"until", "a time such as 1h or 2026-01-31T15:00Z", nil},
		{"signature", "SCHEME:HEX", nil},
	}
}

// Parse returns the query of a line. A word without a key is a domain or, with an @, a Message-ID or an
// address. Times such as 24h count back from now. An error names the word and what is wrong with it.
func Parse(line string, now time.Time) (q admin.HistoryQuery, err error) {
	if len(line) > MaxLine {
		return q, fmt.Errorf("the search has %d bytes, limit %d", len(line), MaxLine)
	}
	seen := make(map[string]bool)
	for _, word := range strings.Fields(line) {
		key, value := keyOf(word)
		if value == "" {
			return q, fmt.Errorf("%s: has no value", word)
		}
		if seen[key] {
			return q, fmt.Errorf("%s: the search has two words of this kind", word)
		}
		seen[key] = true
		if err := set(&q, key, value, now); err != nil {
			return q, fmt.Errorf("%.100s: %w", word, err)
		}
	}
	return q, nil
}

// keyOf splits a word. A word without a known key gets the key of its form.
func keyOf(word string) (key, value string) {
	if key, value, ok := strings.Cut(word, ":"); ok {
		key = strings.ToLower(key)
		if slices.ContainsFunc(Words(), func(w Word) bool { return w.Key == key }) {
			return key, value
		}
		if strings.Contains(key, "/") { // bulkhead/exact:...
			return "signature", word
		}
		return key, value
	}
	if name, domain, ok := strings.Cut(word, "@"); ok && !strings.HasPrefix(word, "<") && name == "" {
		return "domain", domain
	}
	if strings.Contains(word, "@") {
		return "id", word
	}
	return "domain", word
}

func set(q *admin.HistoryQuery, key, value string, now time.Time) (err error) {
	switch key {
	case "verdict":
		if value == "caught" {
			return oneOf(&q.Outcome, "is", value, q.Outcome)
		}
		return oneOf(&q.Class, key, value, "")
	case "is":
		return oneOf(&q.Outcome, key, value, q.Outcome)
	case "kind":
		return oneOf(&q.Kind, key, value, "")
	case "from":
		q.From = domain(value)
	case "link":
		q.Link = domain(value)
	case "domain":
		q.Domain = domain(value)
	case "door":
		q.Door = strings.ToLower(value)
	case "by":
		q.Reporter = value
	case "id":
		q.MessageID = value
	case "signature":
		q.Signature = value
	case "since":
		q.Since, err = timeOf(value, now)
	case "until":
		q.Until, err = timeOf(value, now)
	default:
		var keys []string
		for _, w := range Words() {
			keys = append(keys, w.Key+":")
		}
		return fmt.Errorf("unknown kind of word; there are %s", strings.Join(keys, " "))
	}
	return err
}

// domain returns the domain of a value, which may be written as @example.com.
func domain(value string) string { return strings.TrimPrefix(strings.ToLower(value), "@") }

// oneOf sets a field to a value that the word may have, unless the field has another one.
func oneOf(to *string, key, value, had string) error {
	for _, w := range Words() {
		if w.Key != key {
			continue
		}
		if !slices.Contains(w.Values, value) {
			return fmt.Errorf("want one of %s", strings.Join(w.Values, ", "))
		}
	}
	if had != "" && had != value {
		return fmt.Errorf("contradicts is:%s", had)
	}
	*to = value
	return nil
}

// timeOf reads a time: 90m, 24h or 7d before now, a date, or a date and time in UTC.
func timeOf(text string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.Add(-time.Duration(n) * 24 * time.Hour), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, form := range []string{time.DateOnly, "2006-01-02T15:04Z07:00", time.RFC3339} {
		if t, err := time.Parse(form, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errors.New("want a time such as 24h, 7d, 2006-01-02 or 2006-01-02T15:04Z")
}

// With returns a line with another value of a key, or without the key if the value is "".
func With(line, key, value string) string {
	var out []string
	for _, word := range strings.Fields(line) {
		k, _ := keyOf(word)
		if k == key || key == "verdict" && word == "is:caught" || key == "is" && word == "verdict:caught" {
			continue
		}
		out = append(out, word)
	}
	if value != "" {
		out = append(out, key+":"+value)
	}
	return strings.Join(out, " ")
}

// Value returns the value of a key in a line, "" for none.
func Value(line, key string) string {
	for _, word := range strings.Fields(line) {
		if k, value := keyOf(word); k == key {
			return value
		}
	}
	return ""
}
