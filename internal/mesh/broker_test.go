package mesh

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/bus"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/natsdial"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
)

// TestSubjects checks that a subject has a kind, a full origin and a key, and that no other text is
// a subject.
func TestSubjects(t *testing.T) {
	n, h := bus.NewNames(enginetest.Secret.ID()), wire.Hint{1, 2, 3, 4, 5, 6, 7, 0xab}
	for _, want := range []wire.Topic{{Kind: wire.KindDelta, Origin: h, Key: ""}, {Kind: wire.KindHead, Origin: h,
		Key: ""}, {Kind: wire.KindImage, Origin: h, Key: "0-5-7"},
		{Kind: wire.KindAsk, Origin: h, Key: h.String()}} {
		if got, ok := n.Parse(n.Subject(want)); !ok || got != want {
			t.Errorf("%s is read as %+v, %v", n.Subject(want), got, ok)
		}
	}
	if got := n.Subject(wire.Topic{Kind: wire.KindDelta, Origin: h,
		Key: ""}); got != fmt.Sprintf("bh.%016x.d.01020304050607ab", enginetest.Secret.ID()) {
		t.Errorf("subject %s", got)
	}
	start := "bh." + n.Net + "."
	for _, bad := range []string{"", "bh.", start, start + "d", start + "d.", start + "dd.01020304050607ab",
		start + "d.01020304050607", start + "d.01020304050607a", start + "d.01020304050607AB",
		start + "d.01020304050607abc", start + "d.01020304050607abcd", start + "d.01020304050607xy",
		"bh.0000000000000000.d.01020304050607ab", start + "dx01020304050607ab"} {
		if got, ok := n.Parse(bad); ok {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
	for key, want := range map[string]bool{h.String(): true, "": false, h.String() + "0": false,
		strings.ToUpper(h.String()): false, h.String()[1:]: false} {
		if got, ok := (wire.Topic{Kind: wire.KindAsk, Origin: wire.Hint{9},
			Key: key}).Sender(); ok != want || ok && got != h {
			t.Errorf("an ask with key %q is of %v, %v", key, got, ok)
		}
	}
	if got, ok := (wire.Topic{Kind: wire.KindImage, Origin: h, Key: "anything"}).Sender(); !ok || got != h {
		t.Errorf("an image is of %v, %v", got, ok)
	}
	for in, want := range map[string]string{
		"nats://a:4222": "nats://a:4222", "nats://user:secret@a": "nats://user:xxxxx@a", "nats://token@a": "nats://xxxxx@a",
		"nats://user:secret@a,nats://token@b,nats://c": "nats://user:xxxxx@a,nats://xxxxx@b,nats://c", "::": "::",
	} {
		if got := natsdial.Redacted(in); got != want {
			t.Errorf("%s is shown as %s, want %s", in, got, want)
		}
	}
}

// TestBrokerErrors checks that the last error of a broker is reported until it reconnects, and that
// each error is logged once. A denied subscription to other networks is no error.
func TestBrokerErrors(t *testing.T) {
	var log logtest.Log
	m := closed(t, func(o *member.Options) { o.Log = log.Logger() })
	b := &bus.Client{Opts: m.busOptions(), Server: "a", Ups: make(chan struct{}, 1)}
	lines := func() int { return strings.Count(log.String(), "\n") }
	last := func() string {
		if b.Last == nil {
			return ""
		}
		return b.Last.Error()
	}
	for _, step := range []struct {
		err   error
		lines int
		last  string
	}{{nil, 0, ""}, {errors.New("no permission for " + bus.HeadsOfAll), 0, ""}, {errors.New("x"), 1, "x"},
		{errors.New("x"), 1, "x"}, {errors.New("y"), 2, "y"}, {nil, 2, "y"}} {
		b.Failed(step.err)
		if lines() != step.lines || last() != step.last {
			t.Errorf("%v: %d lines, last %q; want %d, %q", step.err, lines(), last(), step.lines, step.last)
		}
	}
	for range 2 {
		if b.CameUp(); last() != "" || len(b.Up()) != 1 {
			t.Errorf("back: last %q", last())
		}
	}
	if got := natsdial.Cleared(bulkhead.ErrReadOnly); got.Error() != bulkhead.ErrReadOnly.Error() ||
		errors.Is(got, bulkhead.ErrReadOnly) {
		t.Errorf("cleared: %v", got)
	}
}
