package node

import (
	"errors"
	"log/slog"

	"github.com/bulkhead-mail/bulkhead/dcc"
	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// CheckConfig says whether a configuration that config.Load has found right can
// be served on this machine: books that fit, rules of rate limits, policies and
// traps of the milter, keys, thresholds, zones. It reads the certificate and the
// files of lists, and changes nothing.
func CheckConfig(cfg *config.Config) error {
	_, err := readCertificate(cfg)
	return errors.Join(err, checkSizes(cfg, machineMemory()), checkProtocols(cfg), checkMTA(cfg))
}

// checkProtocols says whether what the doors of fuzzy_check and dccifd alone can
// judge is right: keys, thresholds, the file of words.
func checkProtocols(cfg *config.Config) error {
	s := &Node{core: newCore(cfg, "", slog.New(slog.DiscardHandler))}
	_, err := s.newFuzzy()
	front := new(dcc.Ifd)
	return errors.Join(err, setThresholds(front, cfg.Dccifd.Thresholds), readWords(front, cfg.Dccifd.Words))
}
