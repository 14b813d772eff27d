"""Consumers, connections and brokers that do anything at any moment, from one seed."""

from __future__ import annotations

from random import Random

from tests.made.wire import Wire

TOPICS = ("persistent://public/default/a", "persistent://public/default/b-partition-0")
NAMES = (*(f"worker-{number}" for number in range(6)), None)


class RandomWire(Wire):
    """Says anything that is at all possible, mostly what consumers say all day."""

    def __init__(self, chance: Random) -> None:
        super().__init__()
        self.chance = chance
        self.entries = 0
        self.connections = 0
        self.attached_to: dict[tuple[int, int], list[int]] = {}  # conn, id -> entries it holds
        self.open_connections: list[int] = []
        self.returned: list[int] = []

    def played(self, steps: int) -> RandomWire:
        """So many steps, of one or a few commands each."""
        actions = {
            self.receive: 30, self.acknowledge: 30, self.ask: 25, self.pause: 15, self.come: 4,
            self.give_some_back: 3, self.acknowledge_half: 3, self.go: 2, self.come_again: 2,
            self.hang_up: 0.7, self.miss: 0.3, self.stop_reading: 0.3, self.send: 2,
        }  # fmt: skip
        self.dial()
        said = 0
        for _ in range(steps):
            (action,) = self.chance.choices(list(actions), list(actions.values()))
            quick = action not in (self.ask, self.receive) and self.chance.random() < 0.3
            if quick and said < len(self.blocks):  # time never goes back
                self.moment()  # not where permits come or go: an episode is known by its start
            said = len(self.blocks)
            action()
        self.wait(1)
        return self

    def someone(self) -> tuple[int, int]:
        while not self.attached_to:
            self.come()
        return self.chance.choice(list(self.attached_to))

    def dial(self) -> int:
        self.connections += 1
        self.open_connections.append(self.connections)
        self.open(self.connections)
        return self.connections

    def pause(self) -> None:
        self.wait(self.chance.choice((0.0, 0.000001, 0.003, 0.3, 3)))

    def come(self) -> None:
        if not self.open_connections or self.chance.random() < 0.2:
            self.dial()
        self.subscribe_at((self.chance.choice(self.open_connections), self.chance.randrange(4)))

    def come_again(self) -> None:
        self.subscribe_at(self.someone())

    def subscribe_at(self, who: tuple[int, int]) -> None:
        conn_id, consumer_id = who
        self.asked(
            consumer_id,
            self.chance.choice(NAMES),
            topic=self.chance.choice(TOPICS),
            subscription=self.chance.choice(("s", "t")),
            sub_type=self.chance.choice((0, 1, 1, 2, 3)),
            conn_id=conn_id,
            request_id=consumer_id + 1,
        )
        self.returned += self.attached_to.pop(who, [])
        if self.chance.random() < 0.1:
            self.refused(consumer_id + 1, conn_id)
            return
        self.granted(consumer_id + 1, conn_id)
        self.attached_to[who] = []

    def ask(self) -> None:
        conn_id, consumer_id = self.someone()
        self.flow(self.chance.choice((1, 1, 2, 5)), consumer_id, conn_id)

    def receive(self) -> None:
        who = conn_id, consumer_id = self.someone()
        again = int(bool(self.returned) and self.chance.random() < 0.5)
        if again:
            ids = [self.returned.pop(0)]
        else:
            many = self.chance.choice((1, 1, 2, 4))
            ids = list(range(self.entries, self.entries + many))
            self.entries += many
        batch = self.chance.choice((1, 1, 1, 3))
        left = 0b101 if batch == 3 and again else None
        self.pushed(ids, consumer_id, batch=batch, open_bits=left, again=again, conn_id=conn_id)
        self.attached_to[who] += ids

    def acknowledge(self) -> None:
        conn_id, consumer_id = self.someone()
        held = self.attached_to[self.someone()]  # perhaps those of another
        ids = [held.pop(0) for _ in range(min(len(held), self.chance.choice((1, 1, 3))))]
        if ids and self.chance.random() < 0.1:
            held.insert(0, ids.pop())  # a hole
        cumulative = self.chance.random() < 0.15
        ids = ids[-1:] if cumulative else ids
        if ids:
            self.acked(ids, consumer_id, cumulative=cumulative, conn_id=conn_id)

    def acknowledge_half(self) -> None:
        who = conn_id, consumer_id = self.someone()
        if self.attached_to[who]:
            bits = self.chance.choice((0b110, 0b001, 0))
            cumulative = self.chance.random() < 0.3
            ids = self.attached_to[who][:1]
            self.acked(ids, consumer_id, open_bits=bits, cumulative=cumulative, conn_id=conn_id)

    def give_some_back(self) -> None:
        who = conn_id, consumer_id = self.someone()
        held = self.attached_to[who]
        some = self.chance.random() < 0.5
        ids = held[:2] if some else []
        self.given_back(ids, consumer_id, conn_id)
        back = ids if some else list(held)
        self.attached_to[who] = [entry for entry in held if entry not in back]
        self.returned += back

    def go(self) -> None:
        who = conn_id, consumer_id = self.someone()
        way = self.chance.randrange(5)
        if way == 0:
            self.unloaded(consumer_id, conn_id)
        elif way == 1:
            self.closing(consumer_id, conn_id).refused(500 + consumer_id, conn_id)
            return
        elif way == 2:
            self.closed(consumer_id, conn_id, command="UNSUBSCRIBE")
        elif way == 3:
            self.seek(self.entries, consumer_id, conn_id)
        else:
            self.closed(consumer_id, conn_id)
        self.returned += self.attached_to.pop(who)

    def hang_up(self) -> None:
        if self.open_connections:
            conn_id = self.chance.choice(self.open_connections)
            self.open_connections.remove(conn_id)
            self.close(conn_id)
            for who in [who for who in self.attached_to if who[0] == conn_id]:
                self.returned += self.attached_to.pop(who)

    def miss(self) -> None:
        self.lost(self.chance.randrange(1, 9))

    def stop_reading(self) -> None:
        if self.open_connections:
            self.unparsed(self.chance.choice(self.open_connections))

    def send(self) -> None:
        if self.open_connections:
            self.produced(conn_id=self.chance.choice(self.open_connections))
