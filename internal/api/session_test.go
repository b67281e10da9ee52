package api

import (
	"fmt"
	"testing"
	"time"
)

// TestSessions: a link works once, until it expires, and a session works until it expires,
// regardless of other log-ins.
func TestSessions(t *testing.T) {
	s, now := newSessions(), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	link, until := s.link("ann", now)
	if want := now.Add(linkLife); !until.Equal(want) {
		t.Errorf("the link is good until %v, want %v", until, want)
	}
	if _, ok := s.redeem(link+"x", now); ok {
		t.Error("another link was taken")
	}
	late, _ := s.link("ann", now)
	if _, ok := s.redeem(late, now.Add(linkLife)); ok {
		t.Error("an expired link was taken")
	}
	if got, ok := s.redeem(link, now.Add(linkLife-1)); got != "ann" || !ok {
		t.Errorf("the link is of %q, %v", got, ok)
	}
	if _, ok := s.redeem(link, now); ok {
		t.Error("the link was taken twice")
	}
	a, b := s.begin("ann", now), s.begin("bob", now)
	if got, ok := s.account(a, now.Add(sessionLife-1)); got != "ann" || !ok {
		t.Errorf("the session is of %q, %v", got, ok)
	}
	if _, ok := s.account(a, now.Add(sessionLife)); ok {
		t.Error("an expired session was taken")
	}
	if _, ok := s.account("", now); ok {
		t.Error("no session was taken for one")
	}
	s.end(b)
	if _, ok := s.account(b, now); ok {
		t.Error("a session goes on after its end")
	}
	link, _ = s.link("ann", now)
	s.endAll("ann")
	_, session := s.account(a, now)
	if _, ok := s.redeem(link, now); ok || session {
		t.Errorf("a link %v or session %v goes on after the end of all", ok, session)
	}
}

// TestSessionsAreBounded: only the oldest make way for new ones.
func TestSessionsAreBounded(t *testing.T) {
	s, now := newSessions(), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var all []string
	for i := range maxSessions + 3 {
		all = append(all, s.begin(fmt.Sprint(i), now.Add(time.Duration(i))))
	}
	if len(s.open) != maxSessions {
		t.Errorf("%d sessions, want %d", len(s.open), maxSessions)
	}
	for i, secret := range all {
		if _, ok := s.account(secret, now); ok != (i >= 3) {
			t.Errorf("session %d: %v", i, ok)
		}
	}
	if s.begin("late", now.Add(2*sessionLife)); len(s.open) != 1 {
		t.Errorf("%d sessions after all have expired and one began", len(s.open))
	}
}
