package node

import (
	"context"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/api"
	"github.com/bulkhead-mail/bulkhead/internal/logbook"
	"github.com/bulkhead-mail/bulkhead/internal/node/doors"
	"github.com/bulkhead-mail/bulkhead/internal/node/manage"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// startDoors binds every enabled door. With [Options.Spare], a door whose port is in use stays
// closed, except the HTTP door.
func (n *Node) startDoors(ctx context.Context, st *stage) error {
	n.registry.MustRegister(memoryCollector(&n.front), ruleCollector(n.front.calibration),
		learnCollector(n.engine))
	err := n.doors.Open(ctx, doors.Options{
		Config: n.cfg.Load, Dir: n.dir, Socket: n.socket, LocalAdmin: adminName, Clearinghouse: n.houseFor,
		Judge:    n.front.judge,
		Messages: messages{n.core}, Hashing: n.hashing,
		Whitelisted: n.whitelisted, Accounts: n.accounts, Limits: n.mta.limits, Lists: n.mta.lists, API: n.api(),
		Status: &manage.StatusPage{Node: n.state, Peers: n.peers, Doors: n.doors.Page},
		Memory: n.messages, Failures: n.failures, SetAside: n.setAsideNow, Registry: n.registry, Log: n.log,
	}, n.spare)
	for _, d := range n.doors.All() {
		st.tasks = append(st.tasks, task{name: "door " + d.Name, run: d.Serve, abandon: d.Abandon})
	}
	if err != nil {
		return err
	}
	st.tasks = append(st.tasks, task{name: "rates of doors", run: n.doors.Watch})
	return nil
}

// api returns the options of the API, except those that the HTTP door sets.
func (n *Node) api() api.Options {
	mta := manage.NewMTA(n.mta.limits, n.mta.lists)
	o := api.Options{
		Read: messages{n.core}.ReadSigned, Senders: signature.Senders, Accounts: n.accounts, Users: n.accounts,
		RateLimits: mta, Lists: mta, Peers: n.peers, Pairing: n.peers, Whitelist: n.whitelist, Config: n.configuration(),
		Audit: n.records.audit, Node: n.state, Verdicts: n.records.sums.Verdicts, Ready: n.ready, Advance: n.advancer(),
		Sizes:   func(of admin.SizeQuestion) (admin.Sizes, error) { return Sizes(n.cfg.Load(), of) },
		Examine: n.examine, Memory: n.messages, Version: n.version, Failures: n.failures, Registry: n.registry, Log: n.log,
	}
	var history *manage.History
	if n.records.book != nil {
		history = &manage.History{Book: n.records.book, Space: n.spaceOf, Judge: n.front.judge}
		o.History = history
	}
	o.Overview = (&manage.Overview{Sums: n.records.sums, Started: n.started, History: history,
		Audit: n.records.audit.Read, Lists: mta.Lists}).Overview
	return o
}

// configuration returns the node's configuration for the API.
func (n *Node) configuration() *manage.Configuration {
	return &manage.Configuration{Current: n.cfg.Load, Check: CheckConfig, Reread: n.reread, File: n.file}
}

// houseFor returns the clearinghouse for a door. It records what it is asked in the history.
func (n *Node) houseFor(door string) bulkhead.Counter {
	if n.records.book == nil {
		return n.front.house
	}
	return logbook.NewHouse(n.front.house, n.records.book, door)
}

// whitelisted reports whether the whitelist has a source or a signature.
func (n *core) whitelisted(source *bulkhead.Source, sigs []bulkhead.Signature) bool {
	return n.engine.Whitelisted(source, sigs) != ""
}

// setAsideNow moves a damaged file of the data folder away, and returns the folder that holds it
// then.
func (n *core) setAsideNow(file string) (folder string, err error) {
	folder = asideFolder(n.dir)
	_, err = setAside(n.dir, folder, file)
	return folder, err
}

// SecretProtocols returns the protocols for which an account may have a shared secret.
func SecretProtocols() []string { return manage.SecretProtocols() }
