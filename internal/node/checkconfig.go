package node

import (
	"errors"

	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/lists"
	"github.com/bulkhead-mail/bulkhead/internal/mesh"
)

// CheckConfig checks whether a configuration that config.Load has accepted can be served on this
// machine: sizes of books, rules of rate limits, and the parts that only a door can check, such as
// policies, keys and zones. It reads certificates, credentials and the files of lists, and changes
// nothing.
func CheckConfig(cfg *config.Config) error {
	rules, err := rulesOf(cfg)
	if err == nil {
		err = checkRules(rules)
	}
	errs := []error{checkSizes(asEdge(cfg), machineMemory()), err, checkAccess("mesh", cfg.Mesh.Access()),
		checkAccess("aggregate", cfg.Aggregate.Access())}
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

// checkAccess checks the credentials for NATS servers in a section of the configuration.
func checkAccess(section string, a config.Access) error {
	files := mesh.Access{Credentials: a.Credentials, CA: a.CA, Cert: a.Cert, Key: a.Key}
	var errs []error
	for option, err := range files.Check(clock.Now()) {
		errs = append(errs, &config.Error{Key: section + "." + option, Detail: err.Error()})
	}
	return errors.Join(errs...)
}
