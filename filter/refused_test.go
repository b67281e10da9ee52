package filter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter/internal/codec"
)

// TestFileHeader checks that an intact but invalid header is refused for the right reason.
func TestFileHeader(t *testing.T) {
	c := filled(t, Geometry{Kind: Cells, Lines: 3, K: 5, KeyID: 3}, 10, 5)
	var file bytes.Buffer
	if err := c.Encode(&file); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(h []byte)
		want   error
	}{
		"nothing":         {func([]byte) {}, nil},
		"magic":           {func(h []byte) { h[0] ^= 1 }, ErrCorrupt},
		"version":         {func(h []byte) { h[4]++ }, ErrCorrupt},
		"kind":            {func(h []byte) { h[5], h[6] = byte(Bitmap), 8 }, ErrGeometry},
		"no kind":         {func(h []byte) { h[5] = 9 }, ErrCorrupt},
		"no lines":        {func(h []byte) { clear(h[8:16]) }, ErrCorrupt},
		"more lines":      {func(h []byte) { h[8]++ }, ErrGeometry},
		"another key":     {func(h []byte) { h[16]++ }, ErrGeometry},
		"generation":      {func(h []byte) { h[24]++ }, ErrCorrupt},
		"a reserved byte": {func(h []byte) { h[7] = 1 }, ErrCorrupt},
		"another one":     {func(h []byte) { h[35] = 1 }, ErrCorrupt},
	} {
		b := bytes.Clone(file.Bytes())
		tt.change(b[:fileHeader])
		binary.LittleEndian.PutUint32(b[36:], crc32.Checksum(b[:36], castagnoli()))
		if got, err := DecodeCounting(bytes.NewReader(b), 1<<20); !errors.Is(err, tt.want) ||
			(tt.want == nil) != (got != nil) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, tt.want)
		}
	}
	if _, err := DecodeCounting(bytes.NewReader(file.Bytes()), -1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a negative limit: %v, want %v", err, ErrTooLarge)
	}
}

// TestForeignImages checks that an image can only replace a page of a matching array, and that
// refused images change nothing.
func TestForeignImages(t *testing.T) {
	g := Geometry{Kind: Cells, Lines: 2 * PageLines, K: 6}
	from, c := filled(t, g, 100, 5), mustCounting(t, g)
	bits := Geometry{Kind: Bitmap, Lines: 2 * PageLines, K: 8}
	fromBits, b := filledBits(t, bits, 100), mustBits(t, bits)
	c.SetGeneration(77)
	b.SetGeneration(77)
	for name, tt := range map[string]struct {
		change func(*Image)
		want   error
	}{
		"key":        {func(m *Image) { m.Geometry.KeyID++ }, ErrGeometry},
		"size":       {func(m *Image) { m.Geometry.Lines *= 2 }, ErrGeometry},
		"generation": {func(m *Image) { m.Generation++ }, ErrVersion},
		"page":       {func(m *Image) { m.Page = 2 }, ErrCorrupt},
		"no page":    {func(m *Image) { m.Page = -1 }, ErrCorrupt},
		"half":       {func(m *Image) { m.lines = m.lines[1:] }, ErrCorrupt},
	} {
		m, n := from.Image(1), fromBits.Image(1)
		tt.change(m)
		tt.change(n)
		for _, err := range []error{c.Load(m), c.LoadAt(3, m), b.Load(n), b.LoadAt(3, n)} {
			if !errors.Is(err, tt.want) {
				t.Errorf("%s: %v, want %v", name, err, tt.want)
			}
		}
	}
	if c.Keys() != 0 || b.Keys() != 0 || c.Version() != 0 || b.Version() != 0 {
		t.Error("what was refused has changed the array")
	}
	if err := errors.Join(c.Load(from.Image(1)), b.Load(fromBits.Image(1))); err != nil || c.Keys() == 0 || b.Keys() == 0 {
		t.Errorf("%v, %d and %d keys", err, c.Keys(), b.Keys())
	}
}

// TestSmallArrays checks that arrays of one page, sparse or not, work like larger ones.
func TestSmallArrays(t *testing.T) {
	for _, lines := range []uint64{1, 7, PageLines} {
		c, err := NewSparseCounting(Geometry{Kind: Cells, Lines: lines, K: 6})
		if err != nil {
			t.Fatal(err)
		}
		b, err := NewSparseBits(Geometry{Kind: Bitmap, Lines: lines, K: 16})
		if err != nil {
			t.Fatal(err)
		}
		c.SetGeneration(5)
		if c.Generation() != 5 || c.Pages() != 1 {
			t.Errorf("%d lines: generation %d, %d pages", lines, c.Generation(), c.Pages())
		}
		for i := range uint64(10) {
			k := Key{Hi: mix64(i), Lo: mix64(^i)}
			if before, was := c.Add(k, 3), b.Set(k); before != 0 && lines > 7 || was && lines > 7 {
				t.Errorf("%d lines: %d, %v before the first add", lines, before, was)
			}
			if c.Count(k) < 3 || !b.Has(k) || !b.Set(k) {
				t.Errorf("%d lines: counted %d, %v", lines, c.Count(k), b.Has(k))
			}
		}
	}
}

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
