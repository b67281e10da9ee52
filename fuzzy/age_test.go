package fuzzy

import (
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestWrittenAfterDelete: deleted weights age out before their deletion does. Later writes keep
// their own weight all the time, for the digest and for its near copies.
func TestWrittenAfterDelete(t *testing.T) {
	var shingles [32]uint64
	for i := range shingles {
		shingles[i] = uint64(i) * 0x9e3779b97f4a7c15
	}
	near := shingles
	near[3], near[17] = 1, 2
	for name, sh := range map[string]*[32]uint64{"digest": nil, "text": &shingles} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			const keep = 4
			house := prototest.NewTally(keep)
			c := dial(t, serve(t, &Server{Clearinghouse: house}), nil)
			d := digestOf(1)
			want := func(when string, value int32) {
				t.Helper()
				r := mustCheck(t, c, d, sh)
				if r.Value != value || r.OK() != (value > 0) {
					t.Errorf("%s: prob %.2f, value %d, want %d", when, r.Prob, r.Value, value)
				}
				if sh == nil {
					return
				}
				if r := mustCheck(t, c, digestOf(9), &near); r.Value != value || r.OK() != (value > 0) {
					t.Errorf("%s, near copy: prob %.2f, value %d, want %d", when, r.Prob, r.Value, value)
				}
			}
			must(t, c.Write(ctx, d, sh, 1, 1000))
			house.Age()
			must(t, c.Write(ctx, d, sh, 1, 500))
			house.Age()
			must(t, c.Delete(ctx, d, sh))
			want("deleted", 0)
			house.Age()
			must(t, c.Write(ctx, d, sh, 1, 3))
			want("written anew", 3)
			house.Age()
			want("when the first generation has gone", 3)
			must(t, c.Write(ctx, d, sh, 1, 4))
			must(t, c.Write(ctx, d, sh, 1, -2))
			want("and more written", 5)
			house.Age()
			want("when both have", 5)
			house.Age()
			want("when the deletion has gone too", 5)
			must(t, c.Delete(ctx, d, sh))
			want("deleted again", 0)
			must(t, c.Write(ctx, d, sh, 1, 6))
			want("and written again", 6)
			house.Age()
			must(t, c.Delete(ctx, d, sh))
			want("deleted a third time", 0)
			must(t, c.Write(ctx, d, sh, 1, 7))
			for range keep - 1 {
				want("and written a last time", 7)
				house.Age()
			}
		})
	}
}

// TestListsLiveAsLong: a node that has just started knows a list, and that weights were taken away,
// for as long as the latest write lives.
func TestListsLiveAsLong(t *testing.T) {
	ctx := t.Context()
	const keep = 2
	now := time.Unix(1_700_000_000, 0)
	house := prototest.NewTally(keep)
	c := dial(t, serve(t, &Server{Clearinghouse: house, Now: func() time.Time { return now }}), nil)
	must(t, c.Write(ctx, digestOf(1), nil, 5, 10))
	must(t, c.Write(ctx, digestOf(2), nil, 5, 10))
	must(t, c.Delete(ctx, digestOf(1), nil))
	house.Age()
	must(t, c.Write(ctx, digestOf(2), nil, 5, 10))
	must(t, c.Write(ctx, digestOf(3), nil, 5, 10))
	must(t, c.Delete(ctx, digestOf(2), nil))
	house.Age()
	s := &Server{Clearinghouse: house}
	s.prepare()
	s.followLists(ctx)
	again := dial(t, serve(t, s), nil)
	if r := mustCheck(t, again, digestOf(3), nil); !r.OK() || r.Flag != 5 {
		t.Errorf("after a restart the digest is not found: %+v", r)
	}
	if r := mustCheck(t, again, digestOf(2), nil); r.OK() {
		t.Errorf("after a restart the deleted digest is found: %+v", r)
	}
}

// TestTakenByError: a delete that is a false positive of the filter takes no digest away.
func TestTakenByError(t *testing.T) {
	house := prototest.NewTally(2)
	c := dial(t, serve(t, &Server{Clearinghouse: house}), nil)
	must(t, c.Write(t.Context(), digestOf(1), nil, 1, 5))
	must(t, c.Write(t.Context(), digestOf(2), nil, 1, 5))
	must(t, c.Delete(t.Context(), digestOf(2), nil)) // from now on deletes are looked up
	d := digestOf(1)
	for copy := range byte(2) {
		other := digestOf(3 + copy)
		must(t, c.Write(t.Context(), other, nil, 1, 5))
		house.Add(digestSignature(&other, 1, taken, copy), 6)
		if r := mustCheck(t, c, other, nil); r.Value != 5 {
			t.Errorf("taken by copy %d: value %d of a digest that was never deleted, want 5", copy, r.Value)
		}
	}
	unknown := digestOf(9)
	house.Add(digestSignature(&unknown, 1, added, 0), 5)
	if r := mustCheck(t, c, unknown, nil); r.OK() {
		t.Errorf("a digest of which one counter alone is shown: %+v", r)
	}
	house.Add(digestSignature(&d, 1, taken, 0), 6)
	house.Add(digestSignature(&d, 1, deletes, 0), 1)
	if r := mustCheck(t, c, d, nil); r.Value != 5 {
		t.Errorf("value %d, with a delete that never was, want 5", r.Value)
	}
	must(t, c.Write(t.Context(), d, nil, 1, -2))
	if r := mustCheck(t, c, d, nil); r.Value != 3 {
		t.Errorf("value %d after 2 were taken, want 3", r.Value)
	}
}

// TestOwnQuestionsAreNoChecks: look-ups by the server itself, including the look-ups of a write,
// are not counted as checks by clients. A client's check is counted once, however many look-ups it
// needs.
func TestOwnQuestionsAreNoChecks(t *testing.T) {
	ctx := t.Context()
	house := prototest.NewTally(2)
	s := &Server{Clearinghouse: house, SpamFlags: []uint8{1}}
	s.prepare() // called here, since the test calls followLists itself
	c := dial(t, serve(t, s), nil)
	var shingles [32]uint64
	must(t, c.Write(ctx, digestOf(1), &shingles, 1, 10))
	must(t, c.Delete(ctx, digestOf(1), &shingles))
	must(t, c.Write(ctx, digestOf(1), &shingles, 1, 10))
	s.followLists(ctx)
	if all, checks := house.Looks(); checks != 0 || all == 0 {
		t.Errorf("%d of %d looks are checks before there was one", checks, all)
	}
	for i := range 3 {
		if r := mustCheck(t, c, digestOf(byte(i)), &shingles); !r.OK() {
			t.Errorf("digest %d: %+v", i, r)
		}
		if _, checks := house.Looks(); checks != i+1 {
			t.Errorf("%d checks counted after %d", checks, i+1)
		}
	}
}

// TestTakenFromTheForgotten: the counters that a delete took from are forgotten before the delete
// is. Later writes count in full.
func TestTakenFromTheForgotten(t *testing.T) {
	var shingles [32]uint64
	for name, sh := range map[string]*[32]uint64{"digest": nil, "text": &shingles} {
		ctx := t.Context()
		house := prototest.NewTally(2)
		c := dial(t, serve(t, &Server{Clearinghouse: house}), nil)
		must(t, c.Write(ctx, digestOf(1), sh, 1, 100))
		house.Age()
		must(t, c.Write(ctx, digestOf(1), sh, 1, -60))
		house.Age()
		must(t, c.Write(ctx, digestOf(1), sh, 1, 7))
		if r := mustCheck(t, c, digestOf(1), sh); r.Value != 7 {
			t.Errorf("%s: value %d, want 7", name, r.Value)
		}
		if sh == nil {
			continue
		}
		if r := mustCheck(t, c, digestOf(2), sh); r.Value != 7 {
			t.Errorf("near copy: value %d, want 7", r.Value)
		}
	}
}

// TestDeletedWhileADeletionAges: writes between two deletes stay deleted when the first delete is
// forgotten, and with it the mark that anything was taken away.
func TestDeletedWhileADeletionAges(t *testing.T) {
	var shingles [32]uint64
	for name, sh := range map[string]*[32]uint64{"digest": nil, "text": &shingles} {
		ctx := t.Context()
		house := prototest.NewTally(3)
		c := dial(t, serve(t, &Server{Clearinghouse: house}), nil)
		want := func(when string, value int32) {
			t.Helper()
			for copy, d := range []byte{1, 2} { // of the same shingles, if any
				if copy == 1 && sh == nil {
					continue
				}
				if r := mustCheck(t, c, digestOf(d), sh); r.Value != value {
					t.Errorf("%s, copy %d: %s: value %d, want %d", name, copy, when, r.Value, value)
				}
			}
		}
		must(t, c.Write(ctx, digestOf(1), sh, 1, 1000))
		house.Age()
		must(t, c.Delete(ctx, digestOf(1), sh))
		house.Age()
		house.Age() // the thousand are forgotten
		must(t, c.Write(ctx, digestOf(1), sh, 1, 10))
		want("written again", 10)
		must(t, c.Delete(ctx, digestOf(1), sh))
		want("deleted again", 0)
		house.Age()
		want("the first delete is forgotten", 0)
	}
}
