package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// cgroups hold one group for each slot, with limits of memory and processes
// that all of a program's processes share.
type cgroups struct {
	about string
	slots []*cgroup
	dirs  []string // made by us, deepest first
}

// A cgroup is a slot's, in one hierarchy or, in version 1, in two.
type cgroup struct {
	memory, pids string // folders; the same in version 2
	v2           bool
}

// openCgroups makes a group for each slot; nil where this process may not.
func openCgroups(slots int) *cgroups {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	name := fmt.Sprintf("stillhouse-%d", os.Getpid())
	for _, place := range cgroupPlaces(string(mounts), string(own)) {
		if c := makeCgroups(place, name, slots); c != nil {
			return c
		}
	}
	return nil
}

// A cgroupPlace is where groups may be made.
type cgroupPlace struct {
	memory, pids string // folders that exist
	v2           bool
}

// cgroupPlaces lists where groups could be made, the nearest first: below our
// own group, below those above it, and in the roots.
func cgroupPlaces(mounts, own string) []cgroupPlace {
	roots := map[string]string{} // by controller; "" is version 2
	scan := bufio.NewScanner(strings.NewReader(mounts))
	for scan.Scan() {
		f := strings.Fields(scan.Text())
		if len(f) < 4 {
			continue
		}
		switch f[2] {
		case "cgroup2":
			roots[""] = f[1]
		case "cgroup":
			for o := range strings.SplitSeq(f[3], ",") {
				if o == "memory" || o == "pids" {
					roots[o] = f[1]
				}
			}
		}
	}
	paths := map[string]string{}
	for line := range strings.Lines(own) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		for c := range strings.SplitSeq(f[1], ",") {
			paths[c] = f[2]
		}
	}
	var out []cgroupPlace
	if roots["memory"] != "" && roots["pids"] != "" {
		out = append(out,
			cgroupPlace{memory: filepath.Join(roots["memory"], paths["memory"]), pids: filepath.Join(roots["pids"], paths["pids"])},
			cgroupPlace{memory: roots["memory"], pids: roots["pids"]})
	}
	if root := roots[""]; root != "" {
		for dir := filepath.Join("/", paths[""]); ; dir = filepath.Dir(dir) {
			at := filepath.Join(root, dir)
			out = append(out, cgroupPlace{memory: at, pids: at, v2: true})
			if dir == "/" {
				break
			}
		}
	}
	return out
}

// makeCgroups makes the groups in one place, or nothing.
func makeCgroups(place cgroupPlace, name string, slots int) *cgroups {
	about := "cgroup v1"
	if place.v2 {
		about = "cgroup v2"
		if !delegates(place.memory) {
			return nil
		}
	}
	for _, parent := range []string{place.memory, place.pids} {
		sweep(parent)
	}
	c := &cgroups{about: about}
	made := func(parent, name string) (string, bool) {
		dir := filepath.Join(parent, name)
		_ = os.Remove(dir) // of a process that had our number before
		if err := os.Mkdir(dir, 0o755); err != nil {
			return "", false
		}
		c.dirs = append([]string{dir}, c.dirs...)
		return dir, true
	}
	for i := range slots {
		slot := fmt.Sprintf("%s-%d", name, i)
		g := &cgroup{v2: place.v2}
		var ok bool
		if g.memory, ok = made(place.memory, slot); !ok {
			c.close()
			return nil
		}
		g.pids = g.memory
		if !place.v2 {
			if g.pids, ok = made(place.pids, slot); !ok {
				c.close()
				return nil
			}
		}
		c.slots = append(c.slots, g)
	}
	if len(c.slots) == 0 || c.slots[0].set(&Limits{Memory: 64 << 20, Processes: 8}) != nil {
		c.close()
		return nil
	}
	return c
}

// sweep removes the groups of processes of ours that ended without doing so.
func sweep(parent string) {
	const prefix = "stillhouse-"
	old, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range old {
		if left(filepath.Base(dir), prefix) {
			_ = os.Remove(dir)
		}
	}
}

// delegates tells whether groups below dir have the controllers.
func delegates(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return false
	}
	have := strings.Fields(string(text))
	found := 0
	for _, c := range have {
		if c == "memory" || c == "pids" {
			found++
		}
	}
	return found == 2
}

func (c *cgroups) of(slot int) *cgroup { return c.slots[slot] }

func (c *cgroups) close() {
	for _, dir := range c.dirs {
		_ = os.Remove(dir) // a folder of the kernel's: it is empty of processes
	}
	c.dirs = nil
}

// set sets the limits of the next program. Its group is empty of processes, so
// another machine's namespace that shares the hierarchy may have swept it.
func (g *cgroup) set(l *Limits) error {
	for _, dir := range []string{g.memory, g.pids} {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	memory := strconv.FormatInt(l.Memory, 10)
	if g.v2 {
		if err := errors.Join(write(g.memory, "memory.max", memory), write(g.pids, "pids.max", strconv.Itoa(l.Processes+boxProcesses))); err != nil {
			return err
		}
		_ = write(g.memory, "memory.swap.max", "0")  // absent without swap
		_ = write(g.memory, "memory.oom.group", "1") // absent before Linux 4.19
		return nil
	}
	// What is left of the program before counts too, until it is given back.
	_ = write(g.memory, "memory.force_empty", "0")
	_ = write(g.memory, "memory.memsw.limit_in_bytes", "-1") // it may not be below the other
	if err := errors.Join(write(g.memory, "memory.limit_in_bytes", memory), write(g.pids, "pids.max", strconv.Itoa(l.Processes+boxProcesses))); err != nil {
		return err
	}
	_ = write(g.memory, "memory.memsw.limit_in_bytes", memory) // absent without swap accounting
	return nil
}

// add puts a process, and all that it will start, into the group.
func (g *cgroup) add(pid int) error {
	err := write(g.memory, "cgroup.procs", strconv.Itoa(pid))
	if !g.v2 {
		err = errors.Join(err, write(g.pids, "cgroup.procs", strconv.Itoa(pid)))
	}
	return err
}

// kills counts the processes that the kernel has killed because the group's
// memory was used up.
func (g *cgroup) kills() int64 {
	name := "memory.oom_control"
	if g.v2 {
		name = "memory.events"
	}
	text, err := os.ReadFile(filepath.Join(g.memory, name))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "oom_kill" {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n
		}
	}
	return 0
}

func write(dir, name, text string) error {
	return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
}
