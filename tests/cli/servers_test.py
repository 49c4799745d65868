"""Ranks of every role that are lost over every network: a parameter server, a driver, a worker."""

import signal
import unittest

from faults_test import JobTest

NETWORKS = {"tcp": ("--network", "tcp"), "shm": ("--network", "rdma", "--provider", "shm"),
            "tcp_ofi_rxm": ("--network", "rdma", "--provider", "tcp;ofi_rxm")}


class Roles(JobTest):
    def server_lost(self, stack, role, network, number=signal.SIGKILL):
        self.assert_job_lost(stack, 2, 2, number, *NETWORKS[network], phase=f"serving as {role}", servers=1)

    def test_killed_parameter_server_over_tcp(self):
        self.server_lost("tensorflowonspark_ps", "ps", "tcp")

    def test_killed_parameter_server_over_shm(self):
        self.server_lost("tensorflowonspark_ps", "ps", "shm")

    def test_killed_parameter_server_over_tcp_ofi_rxm(self):
        self.server_lost("tensorflowonspark_ps", "ps", "tcp_ofi_rxm")

    def test_stopped_parameter_server(self):
        self.server_lost("tensorflowonspark_ps", "ps", "tcp", signal.SIGSTOP)

    def test_killed_driver_over_tcp(self):
        self.server_lost("bigdl", "driver", "tcp")

    def test_killed_driver_over_shm(self):
        self.server_lost("bigdl", "driver", "shm")

    def test_killed_driver_over_tcp_ofi_rxm(self):
        self.server_lost("bigdl", "driver", "tcp_ofi_rxm")

    def test_stopped_driver(self):
        self.server_lost("bigdl", "driver", "tcp", signal.SIGSTOP)

    def test_killed_worker_of_a_driver(self):
        self.assert_job_lost("bigdl", 2, 1, signal.SIGKILL, *NETWORKS["shm"], servers=1)

    def test_killed_worker_of_a_ring_over_shm(self):
        self.assert_job_lost("tensorflowonspark", 3, 1, signal.SIGKILL, *NETWORKS["shm"])

    def test_stopped_worker_of_shard_push_over_shm(self):
        self.assert_job_lost("caffeonspark", 3, 2, signal.SIGSTOP, *NETWORKS["shm"])

    def test_killed_worker_of_all_reduce_over_tcp_ofi_rxm(self):
        self.assert_job_lost("allreduce", 3, 1, signal.SIGKILL, *NETWORKS["tcp_ofi_rxm"])


if __name__ == "__main__":
    unittest.main()
