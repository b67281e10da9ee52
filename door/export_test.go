package door

// Networks returns how many networks f remembers.
func (f *Failures) Networks() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.networks)
}
