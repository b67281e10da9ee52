package doors

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/dcc"
	dccsum "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/verify"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
	"github.com/bulkhead-mail/bulkhead/signature"
)

const (
	// GreylistFile is the file of the greylist, in the data folder.
	GreylistFile = "greylist"
	greylistSave = 5 * time.Minute
)

// newDccifd returns the server for clients of dccifd, and the verifier of its messages.
func (s *Set) newDccifd(cfg *config.Config) (*dcc.Ifd, *verify.Verifier, error) {
	log := s.opts.Log.With("door", "dccifd")
	verifier := verify.New(verify.Options{Resolver: config.WithPort(cfg.Milter.Resolver, "53"), Now: clock.Now, Log: log})
	rate, exempt := s.doorRate(cfg.Limits)
	front := &dcc.Ifd{
		Clearinghouse: s.houseFor("dccifd"), ServerID: uint32(cfg.DCC.ServerID), Brand: cfg.DCC.Brand, Host: cfg.Dccifd.Host,
		Keep: keptTypes(cfg.DCC.Keep), Substitute: cfg.Dccifd.Substitute, MaxMessage: cfg.Dccifd.MaxMessage,
		Memory:     s.opts.Memory,
		White:      whiteFile(cfg.Dccifd.Whiteclnt, false, log),
		Signatures: s.readDelivered(cfg, verifier), Cleared: s.opts.Messages.Cleared,
		Now: clock.Now, Log: log, Rate: rate, Exempt: exempt,
		MaxConns: s.connections(),
	}
	if cfg.Dccifd.Rules == "1" {
		front.Rules = dccsum.Rules1
	}
	if cfg.Dccifd.Userdirs != "" {
		front.UserWhite = dcc.NewWhiteFiles(cfg.Dccifd.Userdirs, false, log).User
	}
	return front, verifier, errors.Join(setThresholds(front, cfg.Dccifd.Thresholds), readWords(front, cfg.Dccifd.Words),
		s.loadGreylist(front, &cfg.Dccifd))
}

// openDccifd opens the door for clients of dccifd.
func (s *Set) openDccifd(ctx context.Context, address string) (*opened, error) {
	front, verifier, err := s.newDccifd(s.opts.Config())
	if err != nil {
		return nil, err
	}
	o, err := openStream(ctx, address, front)
	if err != nil {
		return nil, err
	}
	if serve := o.serve; front.Grey != nil {
		o.serve = func(ctx context.Context) error {
			return both(ctx, serve, func(ctx context.Context) error { return s.keepGreylist(ctx, front.Grey, greylistSave) })
		}
	}
	o.metrics = append(dccifdMetrics(&front.Stats), verifyMetrics("dccifd", &verifier.Stats))
	return o, nil
}

// maxVerify limits the time for verifying a message's signatures; DNS may use half of it. rspamd
// waits two seconds for dccifd.
const maxVerify = 2 * time.Second

// readDelivered returns the function for [dcc.Ifd] that reads all signatures of a message and its
// sender.
func (s *Set) readDelivered(cfg *config.Config,
	verifier *verify.Verifier) func(context.Context, []byte, string, netip.Addr) ([]bulkhead.Signature, bulkhead.Source,
	error) {
	return func(ctx context.Context, raw []byte, sender string, client netip.Addr) ([]bulkhead.Signature,
		bulkhead.Source, error) {
		var dkim []string
		var spf string
		if cfg.Dccifd.Verify {
			short, cancel := context.WithTimeout(ctx, maxVerify)
			dkim, spf = verifier.Verify(short, withCRLF(raw), client, sender)
			cancel()
		}
		sigs, source, err := s.opts.Messages.ReadVerified(ctx, raw, sender, dkim, spf)
		if err != nil {
			return nil, bulkhead.Source{}, err
		}
		source.Client = client
		return append(sigs, signature.Senders(source)...), source, nil
	}
}

// withCRLF returns a message with CRLF line ends: callers may send it with the line ends of this
// machine.
func withCRLF(raw []byte) []byte {
	if bytes.Contains(raw, []byte("\r\n")) {
		return raw
	}
	return bytes.ReplaceAll(raw, []byte("\n"), []byte("\r\n"))
}

// checkDccifd checks thresholds and the file of words.
func checkDccifd(p *proposal) error {
	front := new(dcc.Ifd)
	return errors.Join(setThresholds(front, p.Dccifd.Thresholds), readWords(front, p.Dccifd.Words))
}

func setThresholds(front *dcc.Ifd, texts []string) error {
	front.Thresholds = make(map[dccsum.Type]uint32)
	for _, text := range texts {
		t, err := dcc.ParseThreshold(text)
		if err != nil {
			return &config.Error{Key: "dccifd.thresholds", Detail: err.Error()}
		}
		for typ, n := range t {
			front.Thresholds[typ] = n
		}
	}
	return nil
}

func readWords(front *dcc.Ifd, path string) error {
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		front.Words, err = dccsum.ReadWords(bufio.NewReader(f))
	}
	if err != nil {
		return &config.Error{Key: "dccifd.words", Detail: err.Error()}
	}
	return nil
}

func (s *Set) loadGreylist(front *dcc.Ifd, cfg *config.Dccifd) error {
	if !cfg.Greylist {
		return nil
	}
	front.Grey = &dcc.Greylist{Embargo: time.Duration(cfg.Embargo), Window: time.Duration(cfg.Window),
		White: time.Duration(cfg.White)}
	f, err := os.Open(filepath.Join(s.opts.Dir, GreylistFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := front.Grey.Load(f); err != nil {
		// Losing it delays mail once more; refusing to start would stop mail.
		folder, bad := s.opts.SetAside(f.Name())
		s.opts.Log.Error("greylist cannot be read", "err", err, "file", f.Name(), "moved_to", folder,
			"consequence", "every sender is new and must wait once more")
		return bad
	}
	return nil
}

// CheckGreylist reads a saved greylist to its end.
func CheckGreylist(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return new(dcc.Greylist).Load(f)
}

// keepGreylist saves the greylist at intervals, and when ctx ends.
func (s *Set) keepGreylist(ctx context.Context, g *dcc.Greylist, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return s.saveGreylist(g)
		case <-tick.C:
			if err := s.saveGreylist(g); err != nil {
				s.opts.Log.Error("greylist not saved", "err", err)
			}
		}
	}
}

// saveGreylist replaces the saved greylist.
func (s *Set) saveGreylist(g *dcc.Greylist) error {
	if err := wholefile.Replace(filepath.Join(s.opts.Dir, GreylistFile), g.Save); err != nil {
		return fmt.Errorf("greylist: %w", err)
	}
	return nil
}

func dccifdMetrics(s *dcc.IfdStats) []prometheus.Collector {
	return doorEvents("dccifd", map[string]*atomic.Int64{
		"message": &s.Messages, "reported": &s.Reported, "queried": &s.Queried, "spam": &s.Spam, "white": &s.White,
		"rejected": &s.Rejected, "greylisted": &s.Greylisted, "temporary": &s.Temporary, "bulk": &s.Bulk, "broken": &s.Broken,
	})
}
