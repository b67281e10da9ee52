package ratelimit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// The limits of a [Webhook].
const (
	webhookQueue   = 256
	webhookTimeout = 10 * time.Second
)

// A Webhook posts events as JSON to a URL, one at a time, in the background.
// Make one with [NewWebhook]; its methods may be called concurrently.
type Webhook struct {
	url    string
	client *http.Client
	log    *slog.Logger
	queue  chan Event
	full   atomic.Bool // the queue was full, and nothing was taken out since

	Sent    atomic.Int64 // events answered with a status of 200 to 299
	Failed  atomic.Int64 // events that were answered otherwise or not at all
	Dropped atomic.Int64 // events that found the queue full
}

// NewWebhook returns a webhook for url. An event may take ten seconds, whatever the client. A nil
// client means a default client; a nil log discards messages.
func NewWebhook(url string, client *http.Client, log *slog.Logger) *Webhook {
	if client == nil {
		client = &http.Client{Timeout: webhookTimeout}
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Webhook{url: url, client: client, log: log, queue: make(chan Event, webhookQueue)}
}

// Notify puts e into the queue, or drops it if the queue is full, which is logged once each time
// the queue fills. It never blocks, as [Options.Notify] must not.
func (w *Webhook) Notify(e Event) {
	select {
	case w.queue <- e:
	default:
		w.Dropped.Add(1)
		if !w.full.Swap(true) {
			w.log.Warn("webhook does not keep up", "dropped", w.Dropped.Load(), "consequence", "events are dropped")
		}
	}
}

// Run posts the events in the queue until ctx ends. Events that are left in the queue are lost.
func (w *Webhook) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-w.queue:
			w.full.Store(false)
			if err := w.post(ctx, e); err != nil {
				w.Failed.Add(1)
				w.log.Warn("webhook failed", "rule", e.Rule, "err", err)
				continue
			}
			w.Sent.Add(1)
		}
	}
}

func (w *Webhook) post(ctx context.Context, e Event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("ratelimit: webhook: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, webhookTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ratelimit: webhook: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.client.Do(req)
	if err != nil {
		return fmt.Errorf("ratelimit: webhook: %w", err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("ratelimit: webhook: status %s", resp.Status)
	}
	return nil
}
