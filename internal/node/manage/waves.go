package manage

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/logbook"
	"github.com/bulkhead-mail/bulkhead/internal/top"
)

// wavePatience is how long a page waits for the latest entries to be read.
const wavePatience = 50 * time.Millisecond

// Waves implements [api.History].
func (h *History) Waves(ctx context.Context, q admin.WaveQuery) (admin.WavePage, error) {
	var page admin.WavePage
	all, err := h.Book.Waves(ctx, wavePatience)
	if err != nil {
		return page, err
	}
	page.Upto, page.Whole, page.Since = all.Upto, all.Whole, all.Since
	if q.Class != "" {
		class, err := bulkhead.ParseClass(q.Class)
		if err != nil {
			return page, err
		}
		all.Waves = slices.DeleteFunc(all.Waves, func(w logbook.Wave) bool { return w.Class != class })
	}
	if !q.Posts {
		before := len(all.Waves)
		all.Waves = slices.DeleteFunc(all.Waves, func(w logbook.Wave) bool { return w.Post() })
		page.Posts = before - len(all.Waves)
	}
	hour := clock.Now().Add(-time.Hour)
	switch q.Sort {
	case "growth":
		slices.SortStableFunc(all.Waves, func(a, b logbook.Wave) int { return cmp.Compare(b.Recent(hour), a.Recent(hour)) })
	case "recent":
		slices.SortStableFunc(all.Waves, func(a, b logbook.Wave) int { return b.Last.Compare(a.Last) })
	case "new":
		slices.SortStableFunc(all.Waves, func(a, b logbook.Wave) int { return b.First.Compare(a.First) })
	}
	page.Of = len(all.Waves)
	for _, w := range all.Waves[:min(len(all.Waves), cmp.Or(q.Limit, logbook.DefaultPage), logbook.MaxPage)] {
		out := waveOf(&w)
		out.Recent = w.Recent(hour)
		if e, ok, err := h.Book.Get(w.Entry); err != nil {
			return page, err
		} else if ok {
			out.Subject = e.Subject
		}
		page.Waves = append(page.Waves, out)
	}
	return page, nil
}

func waveOf(w *logbook.Wave) admin.Wave {
	return admin.Wave{
		ID: int64(w.ID), First: w.First, Last: w.Last, Messages: w.Messages,
		Spam: w.Votes[logbook.CalledSpam], Ham: w.Votes[logbook.CalledHam], Revoked: w.Votes[logbook.Withdrawn],
		Class: w.Class.String(), Confidence: w.Confidence, Entry: int64(w.Entry), Slot: int64(w.Slot / time.Second),
		Growth: w.Growth,
		Doors:  namedCounts(w.Doors), Senders: namedCounts(w.Senders), Domains: namedCounts(w.Domains),
		Reporters: namedCounts(w.Reporters),
	}
}

func namedCounts(items []top.Item) []admin.NamedCount {
	out := make([]admin.NamedCount, len(items))
	for i, it := range items {
		out[i] = admin.NamedCount{Name: it.Name, Count: uint64(it.Count)}
	}
	return out
}

// Wave implements [api.History].
func (h *History) Wave(ctx context.Context, id int64) (admin.WaveDetail, bool, error) {
	w, ok, err := h.Book.Wave(ctx, wavePatience, uint64(max(0, id)))
	if err != nil || !ok {
		return admin.WaveDetail{}, false, err
	}
	out := admin.WaveDetail{Wave: waveOf(&w)}
	e, ok, err := h.Book.Get(w.Entry)
	if err != nil || !ok {
		return out, true, err
	}
	out.Subject, out.Wave.Subject = e.Subject, e.Subject
	// Ask behind the history and the memory of messages: looking at a wave is not sending mail.
	v, err := h.Judge.Check(ctx, bulkhead.Query{Signatures: e.Signatures()})
	if err != nil {
		return out, true, err
	}
	out.Verdict = client.NewVerdict(&v)
	return out, true, nil
}
