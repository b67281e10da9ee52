package admin

import "context"

// An Examination is the result of examining the data folder of a node.
type Examination struct {
	Folder  string   `json:"folder"`
	Files   int      `json:"files" doc:"Files that were read to their end."`
	Bytes   int64    `json:"bytes" doc:"Bytes in them."`
	Entries uint64   `json:"entries" doc:"Journal entries since the last snapshot that can be read."`
	Faults  []Fault  `json:"faults" doc:"Everything that is not as the node wrote it, or not safe."`
	Doubts  []Doubt  `json:"doubts" doc:"What may be lower than was acknowledged because of it."`
	Known   []Doubt  `json:"known,omitempty" doc:"What may be low since an earlier repair, and is until its generation ends. The files are as they should be."`
	Former  int      `json:"former,omitempty" doc:"Format of a store that an older version wrote: the next start of this version converts it, and keeps a copy of it in the folder set-aside."`
	Healed  []Healed `json:"healed,omitempty" doc:"Of a running node: pages that were lost and are whole again since its start, by the peer whose replica they are of."`
}

// Examine makes the node read every file of its data folder, and takes as long as that.
// Administrators only.
func (c *Client) Examine(ctx context.Context) (*Examination, error) {
	return call[*Examination](ctx, c, "GET", "/v1/examination", nil, nil)
}

// Sound reports whether there are neither faults nor doubts.
func (e *Examination) Sound() bool { return len(e.Faults) == 0 && len(e.Doubts) == 0 }

// A Fault is one thing that is wrong with a data folder.
type Fault struct {
	Part    string `json:"part" enum:"folder,keys,store,ratelimits,greylist,history,records,spool,shards,whitelist,lists,mesh,standby,inventory"`
	File    string `json:"file" doc:"Its path."`
	Offset  int64  `json:"offset" doc:"Where in the file the damage was noticed, bytes."`
	Problem string `json:"problem"`
	Advice  string `json:"advice,omitempty"`
}

// A Healed lists pages that a node had lost and that were restored from a peer's replica.
type Healed struct {
	Peer  string `json:"peer" doc:"Key of the peer; broker, if the node made the pages of what it had published itself and a broker had stored."`
	Pages uint64 `json:"pages"`
}

// FromBroker replaces the peer in a [Healed] if the node restored the pages from its own published
// messages.
const FromBroker = "broker"

// A Doubt is a part of the counts that may be lower than was acknowledged.
type Doubt struct {
	Array      string `json:"array" doc:"Array of a generation: counts, unique, spam, revoked, weights, votes or names; listed or unlisted with share_votes_from above 1. Or accounts, ballots or journal, which have neither generation nor page."`
	Generation string `json:"generation,omitempty" doc:"When the generation begins, RFC 3339."`
	Peer       string `json:"peer,omitempty" doc:"Key of the peer whose counts they are; absent for counts of the node itself."`
	Page       int    `json:"page" doc:"Number of the first page in the array."`
	Pages      int    `json:"pages" doc:"How many pages in a row; 0 for what has none."`
	Keys       uint64 `json:"keys" doc:"How many keys the pages had, about; 0 if unknown."`
	First      uint64 `json:"first_entry,omitempty" doc:"First journal entry that is lost."`
	Last       uint64 `json:"last_entry,omitempty" doc:"Last journal entry that is lost."`
	Stale      bool   `json:"stale,omitempty" doc:"The pages can be read, and may be older than they should be."`
	Text       string `json:"text" doc:"The same in words."`
}

// A Repair is the result of repairing a damaged data folder.
type Repair struct {
	Before *Examination `json:"before"`
	After  *Examination `json:"after"`
	Aside  string       `json:"set_aside,omitempty" doc:"Folder that damaged files are kept in; absent if there were none."`
	Done   []string     `json:"done" doc:"What was changed, in words."`
	Lost   []Doubt      `json:"lost" doc:"What could not be restored: it may be lower than was acknowledged."`
}
