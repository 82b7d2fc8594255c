"""Reads a view over Arrow Flight as a trainer does, a thread for each endpoint.

    flight.py REF VIEW SPLIT     with STILLHOUSE_FLIGHT and STILLHOUSE_FLIGHT_TOKEN

Prints {columns, rows, digest} of all rows, in the order of the endpoints, and
what became of calls that have to be refused.
"""

import concurrent.futures
import json
import os
import sys

import check
import pyarrow.flight as fl


def refusal(call):
    try:
        call()
    except Exception as e:
        return type(e).__name__
    return "none"


def main(ref, view, split):
    client = fl.connect(os.environ["STILLHOUSE_FLIGHT"])
    token = os.environ["STILLHOUSE_FLIGHT_TOKEN"]
    options = fl.FlightCallOptions(headers=[(b"authorization", b"Bearer " + token.encode())], timeout=60)
    descriptor = fl.FlightDescriptor.for_path(ref, view, split)
    info = client.get_flight_info(descriptor, options)
    assert client.get_schema(descriptor, options).schema == info.schema
    listed = [f.descriptor.path for f in client.list_flights(options=options)]
    assert any(path[1:] == [view.encode(), split.encode()] for path in listed), listed

    def read(endpoint):
        table = client.do_get(endpoint.ticket, options).read_all()
        table.validate(full=True)
        assert table.schema == info.schema, table.schema
        return table.to_pylist()

    with concurrent.futures.ThreadPoolExecutor() as pool:
        parts = list(pool.map(read, info.endpoints))
    out = check.summary(info.schema.names, [row for part in parts for row in part])
    out["endpoints"], out["promised"] = len(parts), info.total_records

    changed = bytearray(info.endpoints[0].ticket.ticket)
    changed[-2] ^= 1
    out["refused"] = {
        "no token": refusal(lambda: client.get_flight_info(descriptor)),
        "changed ticket": refusal(lambda: client.do_get(fl.Ticket(bytes(changed)), options).read_all()),
        "unknown": refusal(lambda: client.get_flight_info(fl.FlightDescriptor.for_path("nothing"), options)),
        "put": refusal(lambda: client.do_put(descriptor, info.schema, options)[0].close()),
    }
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
