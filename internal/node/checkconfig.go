package node

import (
	"errors"

	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/lists"
)

// CheckConfig says whether a configuration that config.Load has found right can
// be served on this machine: books that fit, rules of rate limits, and what each door
// alone can judge, such as policies, keys and zones. It reads the certificate and the
// files of lists, and changes nothing.
func CheckConfig(cfg *config.Config) error {
	rules, err := rulesOf(cfg)
	if err == nil {
		err = checkRules(rules)
	}
	errs := []error{checkSizes(asEdge(cfg), machineMemory()), err}
	if _, err := readToken(&cfg.Upstream); err != nil {
		errs = append(errs, err)
	}
	set, err := lists.OpenSet(lists.SetOptions{Files: filesOf(cfg), MaxBytes: cfg.Lists.MaxBytes})
	if err != nil {
		return errors.Join(append(errs, &config.Error{Key: "lists.list", Detail: err.Error()})...)
	}
	p := &proposal{Config: cfg, list: set.Handle}
	for _, d := range new(Node).doors() {
		if d.check != nil {
			errs = append(errs, d.check(p))
		}
	}
	return errors.Join(errs...)
}
