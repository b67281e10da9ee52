package mesh

func idKey(id *Identity) []byte { k := id.Public(); return k[:] }

func hintBytes(id *Identity) []byte { h := id.Hint(); return h[:] }
