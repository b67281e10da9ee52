package node

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/dcc"
	dccsum "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/verify"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
	"github.com/bulkhead-mail/bulkhead/signature"
)

func keptTypes(names []string) []dccsum.Type {
	kept := []dccsum.Type{}
	for t := dccsum.TypeIP; t <= dccsum.TypeFuz2; t++ {
		for _, name := range names {
			if t.String() == name {
				kept = append(kept, t)
			}
		}
	}
	return kept
}

// whiteFile returns a function that returns the whitelist in a file; nil for no file.
func whiteFile(path string, server bool, log *slog.Logger) func() *dcc.Whitelist {
	if path == "" {
		return nil
	}
	files := dcc.NewWhiteFiles(filepath.Dir(path), server, log)
	return func() *dcc.Whitelist { return files.Get(filepath.Base(path)) }
}

// openDCC opens the door for DCC clients.
func (n *Node) openDCC(ctx context.Context, address string) (*opened, error) {
	cfg := n.cfg.Load()
	log := n.log.With("door", "dcc")
	anonymous, err := prefixes(cfg.DCC.Anonymous)
	if err != nil {
		return nil, err
	}
	clients := newDCCClients(&protocolAccounts{n.book, dccProtocol}, cfg.DCC.Clients)
	front := &dcc.Server{
		Failures:      n.failures,
		Clearinghouse: n.houseFor("dcc"), ServerID: uint32(cfg.DCC.ServerID), Brand: cfg.DCC.Brand,
		Account:       clients.account,
		AnonymousFrom: anonymous, Keep: keptTypes(cfg.DCC.Keep), Whitelist: whiteFile(cfg.DCC.Whitelist, true, log),
		AnonymousRate:  door.Rate{PerSecond: cfg.DCC.AnonymousRate, Burst: int(10 * cfg.DCC.AnonymousRate)},
		AnonymousTotal: door.Rate{PerSecond: cfg.DCC.AnonymousTotal, Burst: int(10 * cfg.DCC.AnonymousTotal)},
		Log:            log, Memory: n.messages,
	}
	front.Rate, front.Exempt = n.doorRate(cfg.Limits)
	o, err := openPackets(ctx, address, front)
	if err != nil {
		return nil, err
	}
	o.metrics = dccMetrics(&front.Stats)
	return o, nil
}

const (
	greylistFile = "greylist" // in the data folder
	greylistSave = 5 * time.Minute
)

// openDccifd opens the door for clients of dccifd.
func (n *Node) openDccifd(ctx context.Context, address string) (*opened, error) {
	cfg := n.cfg.Load()
	log := n.log.With("door", "dccifd")
	verifier := verify.New(verify.Options{Resolver: config.WithPort(cfg.Milter.Resolver, "53"), Now: clock.Now, Log: log})
	front := &dcc.Ifd{
		Clearinghouse: n.houseFor("dccifd"), ServerID: uint32(cfg.DCC.ServerID), Brand: cfg.DCC.Brand, Host: cfg.Dccifd.Host,
		Keep: keptTypes(cfg.DCC.Keep), Substitute: cfg.Dccifd.Substitute, MaxMessage: cfg.Dccifd.MaxMessage,
		Memory: n.messages,
		White:  whiteFile(cfg.Dccifd.Whiteclnt, false, log), Signatures: n.readDelivered(cfg, verifier), Cleared: n.cleared,
		Now: clock.Now, Log: log,
		MaxConns: cfg.Limits.Connections,
	}
	front.Rate, front.Exempt = n.doorRate(cfg.Limits)
	if cfg.Dccifd.Rules == "1" {
		front.Rules = dccsum.Rules1
	}
	if cfg.Dccifd.Userdirs != "" {
		front.UserWhite = dcc.NewWhiteFiles(cfg.Dccifd.Userdirs, false, log).User
	}
	if err := setThresholds(front, cfg.Dccifd.Thresholds); err != nil {
		return nil, err
	}
	if err := readWords(front, cfg.Dccifd.Words); err != nil {
		return nil, err
	}
	if err := n.loadGreylist(front, &cfg.Dccifd); err != nil {
		return nil, err
	}
	o, err := openStream(ctx, address, front)
	if err != nil {
		return nil, err
	}
	if serve := o.serve; front.Grey != nil {
		o.serve = func(ctx context.Context) error {
			return both(ctx, serve, func(ctx context.Context) error { return n.keepGreylist(ctx, front.Grey) })
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
func (n *Node) readDelivered(cfg *config.Config,
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
		sigs, source, err := n.readVerified(ctx, raw, sender, dkim, spf)
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

func (n *Node) loadGreylist(front *dcc.Ifd, cfg *config.Dccifd) error {
	if !cfg.Greylist {
		return nil
	}
	front.Grey = &dcc.Greylist{Embargo: time.Duration(cfg.Embargo), Window: time.Duration(cfg.Window),
		White: time.Duration(cfg.White)}
	f, err := os.Open(filepath.Join(n.dir, greylistFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := front.Grey.Load(f); err != nil {
		// Losing it delays mail once more; refusing to start would stop mail.
		aside := asideFolder(n.dir)
		n.log.Error("greylist not read; every sender is new", "err", err, "kept_in", aside)
		_, err := setAside(n.dir, aside, f.Name())
		return err
	}
	return nil
}

// checkGreylist reads a saved greylist to its end.
func checkGreylist(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return new(dcc.Greylist).Load(f)
}

// keepGreylist saves the greylist at intervals, and when ctx ends.
func (n *Node) keepGreylist(ctx context.Context, g *dcc.Greylist) error {
	tick := time.NewTicker(greylistSave)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return n.saveGreylist(g)
		case <-tick.C:
			if err := n.saveGreylist(g); err != nil {
				n.log.Error("greylist not saved", "err", err)
			}
		}
	}
}

// saveGreylist replaces the saved greylist.
func (n *Node) saveGreylist(g *dcc.Greylist) error {
	if err := wholefile.Replace(filepath.Join(n.dir, greylistFile), g.Save); err != nil {
		return fmt.Errorf("greylist: %w", err)
	}
	return nil
}

func dccMetrics(s *dcc.Stats) []prometheus.Collector {
	return doorEvents("dcc", map[string]*atomic.Int64{
		"nop": &s.NOPs, "query": &s.Queries, "report": &s.Reports, "retransmission": &s.Repeated, "spam": &s.Spam,
		"delete": &s.Deletes, "admin": &s.Admin, "anonymous": &s.Anonymous, "bad_password": &s.BadPassword,
		"malformed": &s.Malformed, "limited": &s.Limited, "fault": &s.Faults,
	})
}

func dccifdMetrics(s *dcc.IfdStats) []prometheus.Collector {
	return doorEvents("dccifd", map[string]*atomic.Int64{
		"message": &s.Messages, "reported": &s.Reported, "queried": &s.Queried, "spam": &s.Spam, "white": &s.White,
		"rejected": &s.Rejected, "greylisted": &s.Greylisted, "temporary": &s.Temporary, "bulk": &s.Bulk, "broken": &s.Broken,
	})
}
