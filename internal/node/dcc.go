package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/bulkhead-mail/bulkhead/dcc"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/listen"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
	dccsum "github.com/bulkhead-mail/bulkhead/signature/dcc"
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

// whiteFile returns what gives the white list in a file; nil for no file.
func whiteFile(path string, server bool, log *slog.Logger) func() *dcc.Whitelist {
	if path == "" {
		return nil
	}
	files := dcc.NewWhiteFiles(filepath.Dir(path), server, log)
	return func() *dcc.Whitelist { return files.Get(filepath.Base(path)) }
}

// openDCC opens the door for DCC clients.
func (s *Node) openDCC(ctx context.Context, address string) (*opened, error) {
	cfg := s.cfg.Load()
	log := s.log.With("door", "dcc")
	anonymous, err := prefixes(cfg.DCC.Anonymous)
	if err != nil {
		return nil, err
	}
	clients := newDCCClients(&protocolAccounts{s.book, dccProtocol}, cfg.DCC.Clients)
	front := &dcc.Server{
		House: s.engine, ServerID: uint32(cfg.DCC.ServerID), Brand: cfg.DCC.Brand,
		Client:        clients.Client,
		AnonymousFrom: anonymous, Keep: keptTypes(cfg.DCC.Keep), Whitelist: whiteFile(cfg.DCC.Whitelist, true, log),
		AnonymousRate:  listen.Rate{PerSecond: cfg.DCC.AnonymousRate, Burst: int(10 * cfg.DCC.AnonymousRate)},
		AnonymousTotal: listen.Rate{PerSecond: cfg.DCC.AnonymousTotal, Burst: int(10 * cfg.DCC.AnonymousTotal)},
		Log:            log,
	}
	front.Rate, front.Exempt = s.doorRate(cfg.Limits)
	o, err := openPackets(ctx, address, front.ServePackets)
	if err != nil {
		return nil, err
	}
	s.doorStats.add("dcc", dccEvents(&front.Stats))
	return o, nil
}

const (
	greylistFile = "greylist" // in the data folder
	greylistSave = 5 * time.Minute
)

// openDccifd opens the door for programs that speak to dccifd.
func (s *Node) openDccifd(ctx context.Context, address string) (*opened, error) {
	cfg := s.cfg.Load()
	log := s.log.With("door", "dccifd")
	front := &dcc.Ifd{
		House: s.engine, ServerID: uint32(cfg.DCC.ServerID), Brand: cfg.DCC.Brand, Host: cfg.Dccifd.Host,
		Keep: keptTypes(cfg.DCC.Keep), Substitute: cfg.Dccifd.Substitute, MaxMessage: cfg.Dccifd.MaxMessage,
		White: whiteFile(cfg.Dccifd.Whiteclnt, false, log), Signatures: s.read, Cleared: s.cleared, Log: log,
	}
	front.Rate, front.Exempt = s.doorRate(cfg.Limits)
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
	if err := s.loadGreylist(front, &cfg.Dccifd); err != nil {
		return nil, err
	}
	serve := front.ServeStream
	if front.Grey != nil {
		serve = func(ctx context.Context, l net.Listener) error {
			return both(ctx, func(ctx context.Context) error { return front.ServeStream(ctx, l) },
				func(ctx context.Context) error { return s.keepGreylist(ctx, front.Grey) })
		}
	}
	o, err := openStream(ctx, address, serve)
	if err != nil {
		return nil, err
	}
	s.doorStats.add("dccifd", dccifdEvents(&front.Stats))
	return o, nil
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

func (s *Node) loadGreylist(front *dcc.Ifd, cfg *config.Dccifd) error {
	if !cfg.Greylist {
		return nil
	}
	front.Grey = &dcc.Greylist{Embargo: time.Duration(cfg.Embargo), Window: time.Duration(cfg.Window), White: time.Duration(cfg.White)}
	f, err := os.Open(filepath.Join(s.dir, greylistFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := front.Grey.Load(f); err != nil {
		// Losing it delays mail once more; refusing to start would stop it.
		s.log.Error("greylist not read; every sender is new", "err", err)
	}
	return nil
}

// keepGreylist saves the greylist now and then, and when ctx ends.
func (s *Node) keepGreylist(ctx context.Context, g *dcc.Greylist) error {
	tick := time.NewTicker(greylistSave)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return s.saveGreylist(g)
		case <-tick.C:
			if err := s.saveGreylist(g); err != nil {
				s.log.Error("greylist not saved", "err", err)
			}
		}
	}
}

// saveGreylist replaces the saved greylist.
func (s *Node) saveGreylist(g *dcc.Greylist) error {
	if err := wholefile.Replace(filepath.Join(s.dir, greylistFile), g.Save); err != nil {
		return fmt.Errorf("greylist: %w", err)
	}
	return nil
}
