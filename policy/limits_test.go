package policy

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
)

// TestLyingLimiter: whatever a limiter answers, mail is refused by nothing but what it
// may say, an error is no answer, and no text becomes a line of its own.
func TestLyingLimiter(t *testing.T) {
	fault := errors.New("disk on fire")
	type stats struct{ requests, deferred, rejected, held, faults int64 }
	for _, tt := range []struct {
		name, action, text string
		err                error
		failDefer          bool
		want               string
		stats              stats
	}{
		{"dunno", Dunno, "never shown", nil, true, "action=DUNNO\n\n", stats{requests: 1}},
		{"nothing", "", "", nil, true, "action=DUNNO\n\n", stats{requests: 1}},
		{"no action of ours", "OK", "x", nil, true, "action=DUNNO\n\n", stats{requests: 1}},
		{"defer", Defer, "slow down", nil, false, "action=450 4.7.1 slow down\n\n", stats{requests: 1, deferred: 1}},
		{"reject", Reject, "too much", nil, false, "action=550 5.7.1 too much\n\n", stats{requests: 1, rejected: 1}},
		{"hold", Hold, "look at it", nil, false, "action=HOLD look at it\n\n", stats{requests: 1, held: 1}},
		{"fault", Reject, "too much", fault, false, "action=DUNNO\n\n", stats{requests: 1, faults: 1}},
		{"fault, defer", Reject, "too much", fault, true, "action=450 4.7.1 policy service is out of order, try again later\n\n", stats{requests: 1, deferred: 1, faults: 1}},
		{"refusal", Reject, "", bulkhead.ErrForbidden, false, "action=DUNNO\n\n", stats{requests: 1, faults: 1}},
	} {
		s := &Server{FailDefer: tt.failDefer, Log: slog.New(slog.DiscardHandler), Limiter: limiter(func(func(string) []byte) (string, string, error) {
			return tt.action, tt.text, tt.err
		})}
		if got := string(s.answer(t.Context(), new(Request), []byte("kept "))); got != "kept "+tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, "kept "+tt.want)
		}
		st := &s.Stats
		if got := (stats{st.Requests.Load(), st.Deferred.Load(), st.Rejected.Load(), st.Held.Load(), st.Faults.Load()}); got != tt.stats {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.stats)
		}
	}
	for _, text := range []string{"a\nb", "a\r\n\r\naction=OK", "a\x00b", "caf\xc3\xa9", "\x7f"} {
		s := &Server{Log: slog.New(slog.DiscardHandler), Limiter: limiter(func(func(string) []byte) (string, string, error) { return Reject, text, nil })}
		got := string(s.answer(t.Context(), new(Request), nil))
		line, more, _ := strings.Cut(got, "\n")
		if more != "\n" || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) || !strings.HasPrefix(line, "action=550 5.7.1 ") {
			t.Errorf("text %q: answer %q, want one line of ASCII", text, got)
		}
	}
}

func TestAppendRequest(t *testing.T) {
	pairs := func(n int) (all []string) {
		for range n {
			all = append(all, "name", "value")
		}
		return all
	}
	const head = len("request=" + requestType + "\n\n")
	long := func(n int) []string { return []string{"a", strings.Repeat("x", n-head-len("a=\n"))} }
	for _, tt := range []struct {
		name  string
		pairs []string
		want  error
	}{
		{"nothing more", nil, nil},
		{"one", []string{"sender", "a=b@example.com"}, nil},
		{"empty value", []string{"sender", ""}, nil},
		{"as many as there may be", pairs(MaxAttributes - 1), nil},
		{"one more", pairs(MaxAttributes), bulkhead.ErrOverLimit},
		{"as long as it may be", long(MaxRequest), nil},
		{"a byte more", long(MaxRequest + 1), bulkhead.ErrOverLimit},
		{"a name alone", []string{"sender", "x", "size"}, bulkhead.ErrOverLimit},
		{"no name", []string{"", "x"}, bulkhead.ErrMalformed},
		{"= in a name", []string{"a=b", "x"}, bulkhead.ErrMalformed},
		{"line feed in a name", []string{"a\nb", "x"}, bulkhead.ErrMalformed},
		{"line feed in a value", []string{"a", "x\ny=z"}, bulkhead.ErrMalformed},
		{"NUL in a value", []string{"a", "\x00"}, bulkhead.ErrMalformed},
		{"NUL in the second name", []string{"a", "b", "\x00", "d"}, bulkhead.ErrMalformed},
	} {
		got, err := AppendRequest([]byte("kept"), tt.pairs...)
		if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		text := strings.TrimPrefix(string(got), "kept")
		if err != nil {
			if text != "" {
				t.Errorf("%s: %q beside an error", tt.name, text)
			}
			continue
		}
		var r Request
		if err := r.ParseRequest([]byte(strings.TrimSuffix(text, "\n"))); err != nil {
			t.Errorf("%s: our own request is not understood: %v", tt.name, err)
		}
		for i := 0; i+1 < len(tt.pairs); i += 2 {
			if got := string(r.Get(tt.pairs[i])); got != tt.pairs[i+1] {
				t.Errorf("%s: %s is %.40q, want %.40q", tt.name, tt.pairs[i], got, tt.pairs[i+1])
			}
		}
	}
}

// TestReadRequest: a request ends with an empty line; what is none is not waited for.
func TestReadRequest(t *testing.T) {
	for _, tt := range []struct {
		name, in, want, rest string
		err                  error
	}{
		{"one and a half", "a=b\nc=d\n\ne=", "a=b\nc=d\n", "e=", nil},
		{"empty", "\na=b\n", "", "a=b\n", nil},
		{"nothing", "", "", "", io.EOF},
		{"cut", "a=b\n", "a=b\n", "", io.ErrUnexpectedEOF},
		{"cut within a line", "a=b\nc", "a=b\nc", "", io.ErrUnexpectedEOF},
		{"no attribute", "a=b\nGET /\nc=d\n\n", "a=b\nGET /\n", "c=d\n\n", nil},
		{"a line feed at the end of a full buffer", "a=" + strings.Repeat("x", 14) + "\nb=c\n\n", "a=" + strings.Repeat("x", 14) + "\nb=c\n", "", nil},
		{"a long line without = in its second half", "a=" + strings.Repeat("x", 40) + "\n\n", "a=" + strings.Repeat("x", 40) + "\n", "", nil},
	} {
		r := bufio.NewReaderSize(strings.NewReader(tt.in), 16)
		got, err := readRequest(r, nil)
		rest, _ := io.ReadAll(r)
		if string(got) != tt.want || err != tt.err || string(rest) != tt.rest {
			t.Errorf("%s: %q, %v, left %q; want %q, %v, %q", tt.name, got, err, rest, tt.want, tt.err, tt.rest)
		}
	}
	endless := bufio.NewReader(strings.NewReader("a=" + strings.Repeat("x", 10*MaxRequest)))
	if got, err := readRequest(endless, nil); err != nil || len(got) <= MaxRequest || len(got) > MaxRequest+4096 {
		t.Errorf("a line without end: %d bytes, %v; want little more than %d", len(got), err, MaxRequest)
	}
}
