"""The last upload of each client, as methods read it."""

import torch

from helpers.forgetting_kill import deep, deep_again, trained
from pfedul.base.tensorfile import read_file
from pfedul.records.uploads import last_upload


def test_the_weighted_mean_of_the_last_uploads_is_the_shared_model(tmp_path):
    run = trained(tmp_path / "run", record="uploads")
    shared = read_file(run / "shared.safetensors")
    with deep_again(run) as federation:
        found = [last_upload(federation.store, client) for client in federation.clients]
    assert [number for number, _ in found] == [3, 3, 3, 3]
    for name, tensor in shared.items():  # clients have equally many samples
        if tensor.is_floating_point():
            mean = torch.stack([upload[name] for _, upload in found]).double().mean(0)
            torch.testing.assert_close(mean.float(), tensor)
    assert all(set(upload) == set(shared) for _, upload in found)


def test_an_upload_is_of_the_last_round_that_the_client_took_part_in(tmp_path):
    with deep(tmp_path / "run", record="uploads", participation=0.5, rounds=4) as federation:
        federation.train()
        sql = "SELECT client, MAX(round) AS last FROM replies GROUP BY client"
        last = {row["client"]: row["last"] for row in federation.store.ledger.rows(sql)}
        for client in federation.clients:
            found = last_upload(federation.store, client)
            assert (None if found is None else found[0]) == last.get(client)
        assert set(last.values()) != {4}


def test_there_is_none_where_it_was_not_recorded(tmp_path):
    with deep(tmp_path / "run") as federation:
        federation.train()
        assert last_upload(federation.store, "c0") is None
