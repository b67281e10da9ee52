package filter

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/codec"
)

func TestNames(t *testing.T) {
	for want, got := range map[string]string{
		"leaky": Leaky.String(), "strict": Strict.String(), "cells": Cells.String(),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if RateMode(9).String() != "invalid" || Eigenvalue(0).String() != "invalid" || Eigenvalue(0).Valid() ||
		numEigenvalues.Valid() {
		t.Error("what is no mode or eigenvalue has the name of one")
	}
	u, s := testRate(t, UniqueRateConfig{Limit: 7, Period: time.Minute})
	if u.Limit() != 7 || u.Period() != time.Minute {
		t.Errorf("limit %g, period %v", u.Limit(), u.Period())
	}
	if _, err := u.Rate(s[1:], rateStart); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the rate of half a state: %v", err)
	}
	if _, err := u.Items(s[1:]); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the items of half a state: %v", err)
	}
	if _, err := u.Idle(s[1:], rateStart); !errors.Is(err, ErrCorrupt) {
		t.Errorf("half a state is idle: %v", err)
	}
	bits := Geometry{Kind: Bitmap, Lines: 10, K: 8}
	if bits.CountError(100) != 0 || bits.BulkError(100, 10, 1.2) != 0 {
		t.Error("bits have an error of counts")
	}
}

// TestRateStateTimes checks that states with impossible times are refused.
func TestRateStateTimes(t *testing.T) {
	u, _ := testRate(t, UniqueRateConfig{Limit: 10})
	plain, _ := testRate(t, UniqueRateConfig{Limit: 10, Plain: true})
	for _, tt := range []struct {
		name             string
		rule             *UniqueRate
		rate             float64
		changed, started int64
		ok               bool
	}{
		{"new", u, 0, 0, 0, true},
		{"used", u, 1, 5, 3, true},
		{"begun as it was changed", u, 1, 5, 5, true},
		{"no filter", u, 1, 5, 0, true},
		{"changed before 1970", u, 1, -1, 0, false},
		{"begun before 1970", u, 1, 5, -1, false},
		{"begun after it was changed", u, 1, 5, 6, false},
		{"a rate, and never seen", u, 1, 0, 0, false},
		{"no rate, and seen", u, 0, 5, 0, true},
		{"plain", plain, 1, 5, 0, true},
		{"plain, with a filter", plain, 1, 5, 5, false},
		{"negative", u, -1e-300, 5, 5, false},
		{"as much as there is", u, math.MaxFloat64, 5, 5, true},
	} {
		s := rateState(make([]byte, tt.rule.StateBytes()))
		s.set(tt.rate, tt.changed)
		s.setStart(tt.started)
		if err := tt.rule.Validate(s); (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestRateStatesRefused checks that invalid states are not written, and that reading stops at an
// invalid state or an error of put.
func TestRateStatesRefused(t *testing.T) {
	u, s := testRate(t, UniqueRateConfig{Limit: 10})
	measure(t, u, &s, rateStart, item(1))
	one := func(key, state []byte) func(func(k, s []byte) bool) {
		return func(yield func(k, s []byte) bool) { yield(key, state) }
	}
	var buf bytes.Buffer
	if err := u.EncodeStates(&buf, one([]byte("k"), s[1:])); !errors.Is(err, ErrCorrupt) {
		t.Errorf("half a state: %v", err)
	}
	if err := u.EncodeStates(&buf, one(make([]byte, MaxRateKey+1), s)); err == nil {
		t.Error("a key that is too long was written")
	}
	buf.Reset()
	if err := u.EncodeStates(&buf, one(make([]byte, MaxRateKey), s)); err != nil {
		t.Error(err)
	}
	none := func(_, _ []byte) error { return nil }
	if err := u.DecodeStates(bytes.NewReader(buf.Bytes()), 1<<20, none); err != nil {
		t.Error(err)
	}
	stop := errors.New("stop")
	if err := u.DecodeStates(bytes.NewReader(buf.Bytes()), 1<<20,
		func(_, _ []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v, want %v", err, stop)
	}
	bad := bytes.Clone(s)
	rateState(bad).set(-1, 5)
	for name, tt := range map[string]struct {
		key   []byte
		state []byte
	}{"a key that is too long": {make([]byte, MaxRateKey+1), s}, "no state": {[]byte("k"), bad}} {
		var buf bytes.Buffer
		w := codec.NewWriter(&buf, codec.RateStates)
		w.Uint64(u.ID())
		w.Uint32(uint32(len(tt.key)))
		w.Bytes(tt.key)
		w.Uint32(uint32(len(tt.state)))
		w.Bytes(tt.state)
		w.Uint32(rateStatesEnd)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := u.DecodeStates(&buf, 1<<20, none); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want %v", name, err, ErrCorrupt)
		}
	}
}

func TestTwoPartMeta(t *testing.T) {
	f := testTwoPart(t, 10, 0.1, EigenHash)
	if err := f.SetMeta(make([]byte, MaxMeta)); err != nil || len(f.Meta()) != MaxMeta {
		t.Errorf("%d bytes, %v", len(f.Meta()), err)
	}
	if g := cloneTwoPart(t, f); len(g.Meta()) != MaxMeta {
		t.Errorf("%d bytes come back", len(g.Meta()))
	}
	if err := f.SetMeta(make([]byte, MaxMeta+1)); err == nil || len(f.Meta()) != MaxMeta {
		t.Errorf("a byte too much: %v, %d bytes", err, len(f.Meta()))
	}
	f.Add([]byte("a@example.org"))
	if !f.ContainsString("a@example.org") || f.ContainsString("b@example.org") {
		t.Error("a string is another element than its bytes")
	}
	if _, err := NewTwoPart(TwoPartShape{}, Secret{}); err == nil {
		t.Error("a filter without shape was made")
	}
}
