package admin

// A Setting is one key of a node's configuration.
type Setting struct {
	Key     string `json:"key" doc:"Dotted; tables of a list have their number, from 0."`
	Value   string `json:"value" doc:"As the file has it; \"(hidden)\" for a secret."`
	Meaning string `json:"meaning"`
	Reload  bool   `json:"reload" doc:"The running node can take it over from the file."`
	Default bool   `json:"default" doc:"A node without a configuration has the same value."`
}

// A Configuration is the configuration of a running node.
type Configuration struct {
	Settings   []Setting `json:"settings"`
	Reloadable bool      `json:"reloadable" doc:"The node has a file that it can read again."`
}

// A ConfigText is the text of a configuration file.
type ConfigText struct {
	Text string `json:"text" maxLength:"4194304"`
}

// A ConfigCheck lists the faults in a configuration text, and the changes that it would make.
type ConfigCheck struct {
	Mistakes []string        `json:"mistakes" doc:"Empty: the node could be started with it."`
	Changed  []string        `json:"changed" doc:"Keys that the running node would take over."`
	Restart  []string        `json:"restart" doc:"Keys that need a restart."`
	Diff     []SettingChange `json:"diff" doc:"Each key whose value differs, without secrets."`
}

// A SettingChange is a key whose value differs from the value in force.
type SettingChange struct {
	Key    string `json:"key"`
	Now    string `json:"now" doc:"Value in force, as a file has it; absent from a list of tables: empty."`
	Then   string `json:"then" doc:"The other value."`
	Reload bool   `json:"reload" doc:"A running node takes it over."`
}

// A TopKeys holds the keys of one rate limit with the highest rates.
type TopKeys struct {
	Rule string   `json:"rule"`
	Keys []TopKey `json:"keys" doc:"The highest rate first."`
}

// A TopKey is one key of a [TopKeys].
type TopKey struct {
	Key   string  `json:"key"`
	Rate  float64 `json:"rate" doc:"In a period, as decayed until now."`
	Limit float64 `json:"limit"`
	Items float64 `json:"items" doc:"Different items in the filter, estimated from its fill."`
}

// A Weights is the weight of an account's votes over time.
type Weights struct {
	Account string   `json:"account"`
	Samples []Weight `json:"samples" doc:"Where the worth changed, the oldest first."`
}

// A Weight is the weight of votes from a time on.
type Weight struct {
	Time  int64   `json:"time" doc:"Seconds since 1970."`
	Worth float64 `json:"worth" minimum:"0" maximum:"1"`
}
