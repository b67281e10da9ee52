package consequence

import (
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/client/admin"
)

func TestQuestions(t *testing.T) {
	since := time.Date(2026, 11, 27, 4, 13, 30, 0, time.UTC)
	for _, tt := range []struct {
		got  Question
		want []string
	}{
		{Undo("ann", since, &admin.Undone{Votes: 1254, Off: 510, On: 1}), []string{
			"Undo takes back the votes of ann on 1,254 signatures.",
			"510 listings are removed from the blocklist; 1 returns to it.",
			"Votes before 2026-11-27 04:13 UTC stay.", "Later votes of ann count as before.",
		}},
		{Undo("ann", since, &admin.Undone{Oldest: since.Add(time.Hour)}), []string{
			"No vote of ann since 2026-11-27 04:13 UTC is remembered, so nothing changes.",
			"Votes before 2026-11-27 05:13 UTC are not remembered, and stay.", "Later votes of ann count as before.",
		}},
		{Undo("ann", since, &admin.Undone{Votes: 1, Off: 1}), []string{
			"Undo takes back the votes of ann on 1 signature.", "1 listing is removed from the blocklist; 0 return to it.",
			"Votes before 2026-11-27 04:13 UTC stay.", "Later votes of ann count as before.",
		}},
		{Evict("two", &admin.PeerLoss{Arrays: 3, Counted: 1234567, Listed: 1}), []string{
			"Evict drops what two counted: 1,234,567 keys, 1 listing, 0 revocations.",
			"Messages of two are refused from then on.",
			`To come back, two needs a new invitation, or "bulkhead peer add" with its key.`,
		}},
		{Forget("two", []admin.Incarnation{{Incarnation: uint64(since.UnixMilli()), Keys: 1234, Listed: 34}}), []string{
			"Forget drops the incarnation of 2026-11-27 04:13 UTC: 1,200 keys, 34 listings.",
			"This node may have the only copy. two cannot take back from it what is dropped.",
			"What two has counted since stays.",
		}},
		{Forget("two", nil), []string{"Nothing is kept of former incarnations of two, so nothing changes."}},
		{Rollback("two", since, &admin.PeerLoss{}), []string{
			"Roll back drops what two counted in generations that began since 2026-11-27 04:13 UTC: nothing, since " +
				"this node holds none of it.",
			"These generations are not fetched again.", "Earlier generations stay, and generations that begin later count.",
		}},
		{Close("ann", &admin.Closing{Votes: 12, Sessions: 1, AnswersFor: []string{"ann.phone", "bob"}}), []string{
			"ann can no longer check, report or log in; 1 log-in ends now.",
			"Reports of ann.phone, bob weigh nothing while it is closed: ann answers for them.",
			"Its votes on 12 signatures stay; Undo takes them back.",
			"The name stays reserved, and the account can be opened again.",
		}},
	} {
		if !slices.Equal(tt.got.Facts, tt.want) {
			t.Errorf("%s\n got %q\nwant %q", tt.got.Title, tt.got.Facts, tt.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 999999: "999,999",
		1<<64 - 1: "18,446,744,073,709,551,615"} {
		if got := number(n); got != want {
			t.Errorf("number(%d) = %q, want %q", n, got, want)
		}
	}
}
