package answers

import "container/list"

// An lru is a map that forgets what was used longest ago when the costs of its
// values pass a limit. Its owner locks it.
type lru[K comparable, V any] struct {
	limit   int64
	total   int64
	order   *list.List // of *lruItem[K, V], newest first
	items   map[K]*list.Element
	evicted func(K, V)
}

type lruItem[K comparable, V any] struct {
	key   K
	value V
	cost  int64
}

func newLRU[K comparable, V any](limit int64, evicted func(K, V)) *lru[K, V] {
	return &lru[K, V]{limit: limit, order: list.New(), items: make(map[K]*list.Element), evicted: evicted}
}

func (l *lru[K, V]) get(key K) (value V, ok bool) {
	e := l.items[key]
	if e == nil {
		return value, false
	}
	l.order.MoveToFront(e)
	return e.Value.(*lruItem[K, V]).value, true
}

// put adds or replaces a value as the newest. One that is above the limit by
// itself stays until the next.
func (l *lru[K, V]) put(key K, value V, cost int64) {
	l.remove(key)
	l.items[key] = l.order.PushFront(&lruItem[K, V]{key, value, cost})
	l.total += cost
	for l.total > l.limit && l.order.Len() > 1 {
		l.drop(l.order.Back())
	}
}

func (l *lru[K, V]) remove(key K) {
	if e := l.items[key]; e != nil {
		l.drop(e)
	}
}

func (l *lru[K, V]) drop(e *list.Element) {
	item := l.order.Remove(e).(*lruItem[K, V])
	delete(l.items, item.key)
	l.total -= item.cost
	if l.evicted != nil {
		l.evicted(item.key, item.value)
	}
}

func (l *lru[K, V]) clear() {
	for l.order.Len() > 0 {
		l.drop(l.order.Back())
	}
}
