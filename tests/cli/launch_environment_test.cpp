// What each launcher says of a rank: environments as the launchers leave them, and as they should
// not be.
#include "../../apps/dlobd/launch_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../apps/dlobd/slurm_nodes.h"

namespace dlobd::app {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Environment with(Environment environment, const Environment& changes) {
  for (const auto& [name, value] : changes) environment[name] = value;
  return environment;
}

Launch launched(const Environment& environment, std::optional<int> pmi_server = std::nullopt) {
  const auto launch = launch_from(environment, pmi_server);
  EXPECT_TRUE(launch) << (launch ? "" : launch.error().message);
  EXPECT_TRUE(launch && *launch);
  return launch && *launch ? **launch : Launch();
}

std::string refusal(const Environment& environment) {
  const auto launch = launch_from(environment);
  EXPECT_FALSE(launch);
  if (launch) return {};
  EXPECT_EQ(launch.error().kind, base::ErrorKind::invalid_argument);
  EXPECT_EQ(launch.error().message.find('\n'), std::string::npos);
  return launch.error().message;
}

bool nobody_launched(const Environment& environment) {
  const auto launch = launch_from(environment);
  return launch && !*launch;
}

// Rank 5 of 7 on the second of two nodes.
const Environment kSlurmTask = {{"SLURM_JOB_ID", "4711"},
                                {"SLURM_STEP_ID", "2"},
                                {"SLURM_PROCID", "5"},
                                {"SLURM_LOCALID", "1"},
                                {"SLURM_NODEID", "1"},
                                {"SLURM_STEP_NUM_TASKS", "7"},
                                {"SLURM_STEP_NUM_NODES", "2"},
                                {"SLURM_STEP_NODELIST", "node[03-04]"},
                                {"SLURM_JOB_NODELIST", "node[01-04]"},
                                {"SLURM_STEP_TASKS_PER_NODE", "4,3"},
                                {"SLURMD_NODENAME", "node04"},
                                {"SLURM_NTASKS", "7"}};

const Environment kSlurmBatch = {
    {"SLURM_JOB_ID", "4711"},      {"SLURM_PROCID", "0"},
    {"SLURM_LOCALID", "0"},        {"SLURM_NODEID", "0"},
    {"SLURM_NTASKS", "7"},         {"SLURM_JOB_NODELIST", "node[01-04]"},
    {"SLURMD_NODENAME", "node01"}, {"SLURM_TASKS_PER_NODE", "2(x3),1"}};

const Environment kMpirunRank = {
    {"OMPI_COMM_WORLD_RANK", "2"},
    {"OMPI_COMM_WORLD_SIZE", "4"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
    {"OMPI_COMM_WORLD_NODE_RANK", "2"},
    {"OMPI_UNIVERSE_SIZE", "2"},
    {"PMIX_RANK", "2"},
    {"PMIX_NAMESPACE", "1879638017"},
    {"OMPI_MCA_ess_base_jobid", "1879638017"},
    {"OMPI_MCA_orte_precondition_transports", "e8591618f2344950-3a48cc737a802de9"},
    {"OMPI_MCA_orte_num_nodes", "1"},
    {"OMPI_MCA_orte_hnp_uri", "1879638016.0;tcp://192.0.2.2:39317;tcp6://[fd00::2]:54621"},
    {"PMIX_HOSTNAME", "node1"},
    {"PMIX_SERVER_URI41", "1879638016.0;tcp4://127.0.0.1:43833"}};

const Environment kHydraRank = {{"PMI_RANK", "1"},        {"PMI_SIZE", "4"},
                                {"PMI_FD", "9"},          {"MPI_LOCALRANKID", "1"},
                                {"MPI_LOCALNRANKS", "4"}, {"PMI_HOSTNAME", "node1"}};

const Environment kTorchrunRank = {{"RANK", "3"},
                                   {"WORLD_SIZE", "4"},
                                   {"LOCAL_RANK", "1"},
                                   {"LOCAL_WORLD_SIZE", "2"},
                                   {"GROUP_RANK", "1"},
                                   {"GROUP_WORLD_SIZE", "2"},
                                   {"MASTER_ADDR", "node1"},
                                   {"MASTER_PORT", "29500"},
                                   {"TORCHELASTIC_RUN_ID", "none"},
                                   {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                   {"OMP_NUM_THREADS", "1"}};

TEST(LaunchEnvironment, NoLauncher) {
  EXPECT_TRUE(nobody_launched({}));
  EXPECT_TRUE(nobody_launched({{"PATH", "/bin"}, {"RANK", ""}, {"WORLD_SIZE", ""}}));
  // Of somebody else, and no pair.
  EXPECT_TRUE(nobody_launched({{"RANK", "major"}}));
  EXPECT_TRUE(nobody_launched({{"WORLD_SIZE", "large"}}));
}

TEST(LaunchEnvironment, SrunOnTwoNodes) {
  const Launch launch = launched(kSlurmTask);
  EXPECT_EQ(launch.launcher, "srun");
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.world_size, 7);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_size, 3);
  EXPECT_EQ(launch.rendezvous, "node03:" + std::to_string(port_of_job(launch.job)));

  const Launch first = launched(with(
      kSlurmTask, {{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}, {"SLURMD_NODENAME", "node03"}}));
  EXPECT_EQ(first.rank, 0);
  EXPECT_EQ(first.local_size, 4);
  EXPECT_EQ(first.rendezvous, launch.rendezvous);
  EXPECT_EQ(first.job, launch.job);
}

TEST(LaunchEnvironment, StepsOfAJobDoNotMeet) {
  const Launch one = launched(kSlurmTask);
  const Launch other = launched(with(kSlurmTask, {{"SLURM_STEP_ID", "3"}}));
  EXPECT_NE(one.job, other.job);
  EXPECT_NE(one.rendezvous, other.rendezvous);
  EXPECT_NE(token_of_job(one.job, one.rendezvous), token_of_job(other.job, one.rendezvous));
}

TEST(LaunchEnvironment, SrunOnOneNodeStaysOnLoopback) {
  const Launch launch =
      launched(with(kSlurmTask, {{"SLURM_NODEID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "7"}}));
  EXPECT_EQ(launch.rendezvous, "127.0.0.1:" + std::to_string(port_of_job(launch.job)));
}

TEST(LaunchEnvironment, Rank0OfAnArbitraryDistributionSaysSo) {
  EXPECT_THAT(refusal(with(kSlurmTask, {{"SLURM_PROCID", "0"}})),
              AllOf(HasSubstr("--rendezvous node04:PORT"), HasSubstr("node03")));
}

TEST(LaunchEnvironment, ABatchScriptIsNoTask) {
  EXPECT_TRUE(nobody_launched(kSlurmBatch));
  EXPECT_TRUE(nobody_launched(with(kSlurmBatch, {{"PMIX_RANK", "0"}})));
}

TEST(LaunchEnvironment, AShellOfAStepOfOneTrainsAlone) {
  const Launch launch = launched(with(
      kSlurmTask,
      {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_STEP_TASKS_PER_NODE", "1"}}));
  EXPECT_EQ(launch.world_size, 1);
}

TEST(LaunchEnvironment, SlurmsListsAreChecked) {
  EXPECT_THAT(refusal(with(kSlurmTask, {{"SLURM_STEP_NODELIST", "node[3-"}})),
              HasSubstr("node[3-"));
  EXPECT_THAT(refusal(with(kSlurmTask, {{"SLURM_STEP_TASKS_PER_NODE", "4(x0)"}})),
              HasSubstr("4(x0)"));
  EXPECT_THAT(refusal(with(kSlurmTask, {{"SLURM_STEP_TASKS_PER_NODE", "7"}})),
              HasSubstr("ends before this node"));
  EXPECT_THAT(refusal(with(kSlurmTask, {{"SLURM_NODEID", "-1"}})), HasSubstr("SLURM_NODEID=-1"));
}

TEST(LaunchEnvironment, MpirunOnOneHost) {
  const Launch launch = launched(kMpirunRank);
  EXPECT_EQ(launch.launcher, "mpirun (Open MPI)");
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.world_size, 4);
  EXPECT_EQ(launch.local_rank, 2);
  EXPECT_EQ(launch.local_size, 4);
  EXPECT_EQ(launch.rendezvous, "127.0.0.1:" + std::to_string(port_of_job(launch.job)));
  EXPECT_NE(launch.job, launched(with(kMpirunRank, {{"PMIX_NAMESPACE", "1879638018"}})).job);
  EXPECT_NE(
      launch.job,
      launched(with(kMpirunRank, {{"OMPI_MCA_orte_precondition_transports", "e8591618f2344951-0"}}))
          .job);
}

TEST(LaunchEnvironment, MpirunOnSeveralHostsDoesNotSayWhereRank0Is) {
  const Environment two_hosts = with(kMpirunRank, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_EQ(launched(two_hosts).rendezvous, "");
  EXPECT_NE(launched(two_hosts).job, "");
  // But its user, or the batch system around it, may.
  const std::string port = std::to_string(port_of_job(launched(two_hosts).job));
  EXPECT_EQ(launched(with(two_hosts, {{"MASTER_ADDR", "node2"}})).rendezvous, "node2:" + port);
  EXPECT_EQ(
      launched(with(two_hosts, {{"MASTER_ADDR", "node2"}, {"MASTER_PORT", "7000"}})).rendezvous,
      "node2:7000");
  EXPECT_EQ(launched(with(two_hosts, kSlurmBatch)).rendezvous, "node01:" + port);
  EXPECT_THAT(refusal(with(with(two_hosts, kSlurmBatch), {{"OMPI_COMM_WORLD_RANK", "0"},
                                                          {"PMIX_RANK", "0"},
                                                          {"SLURMD_NODENAME", "node02"}})),
              HasSubstr("--rendezvous node02:PORT"));
}

TEST(LaunchEnvironment, MpirunsDaemonsAreTasksOfSlurm) {
  const Launch launch = launched(with(kSlurmTask, kMpirunRank));
  EXPECT_EQ(launch.launcher, "mpirun (Open MPI)");
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.world_size, 4);
}

TEST(LaunchEnvironment, MpiexecOfMpich) {
  const Launch launch = launched(kHydraRank, 1234);
  EXPECT_EQ(launch.launcher, "mpiexec (PMI)");
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.world_size, 4);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_size, 4);
  EXPECT_EQ(launch.rendezvous, "127.0.0.1:" + std::to_string(port_of_job(launch.job)));
  EXPECT_NE(launch.job, launched(kHydraRank, 1235).job);
  // Nothing tells its jobs apart: no port can be agreed upon.
  EXPECT_EQ(launched(kHydraRank).rendezvous, "");
  EXPECT_NE(launched(with(kHydraRank, {{"PMI_PORT", "node1:33333"}})).rendezvous, "");
  // Each host has a server of its own, which so says nothing of the job.
  const Environment two_hosts = with(kHydraRank, {{"MPI_LOCALNRANKS", "2"}});
  EXPECT_EQ(launched(two_hosts, 1234).rendezvous, "");
  EXPECT_EQ(launched(two_hosts, 1234).job, launched(two_hosts, 1235).job);
  EXPECT_THAT(
      launched(with(two_hosts, {{"MASTER_ADDR", "node2"}, {"PBS_JOBID", "17.head"}}), 1).rendezvous,
      HasSubstr("node2:2"));
}

TEST(LaunchEnvironment, SrunThatSpeaksPmi) {
  const Environment both = with(kSlurmTask, {{"PMI_RANK", "5"}, {"PMI_SIZE", "7"}});
  EXPECT_EQ(launched(both).launcher, "srun");
  EXPECT_EQ(launched(both).rendezvous, launched(kSlurmTask).rendezvous);
  // mpiexec's own processes are tasks of Slurm.
  EXPECT_EQ(launched(with(both, {{"PMI_RANK", "3"}, {"PMI_SIZE", "14"}})).rank, 3);
}

TEST(LaunchEnvironment, Torchrun) {
  const Launch launch = launched(kTorchrunRank);
  EXPECT_EQ(launch.launcher, "torchrun");
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.world_size, 4);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_size, 2);
  EXPECT_EQ(launch.rendezvous, "node1:29501");  // its agent has 29500
  EXPECT_NE(launch.job, launched(with(kTorchrunRank, {{"TORCHELASTIC_RUN_ID", "7"}})).job);
}

TEST(LaunchEnvironment, PortsAndAddressesOfTorchrun) {
  const auto place = [](const Environment& changes) {
    return launched(with(kTorchrunRank, changes)).rendezvous;
  };
  EXPECT_EQ(place({{"TORCHELASTIC_USE_AGENT_STORE", "False"}}), "node1:29500");
  EXPECT_EQ(place({{"MASTER_PORT", "65535"}}), "node1:65534");
  EXPECT_EQ(place({{"MASTER_ADDR", "fd00::1"}}), "[fd00::1]:29501");
  EXPECT_EQ(place({{"LOCAL_WORLD_SIZE", "4"}, {"GROUP_WORLD_SIZE", "1"}}), "127.0.0.1:29501");
  EXPECT_EQ(place({{"MASTER_ADDR", ""}}), "");
  EXPECT_THAT(refusal(with(kTorchrunRank, {{"MASTER_PORT", "65536"}})),
              HasSubstr("MASTER_PORT=65536"));
  EXPECT_THAT(refusal(with(kTorchrunRank, {{"MASTER_PORT", "http"}})),
              HasSubstr("MASTER_PORT=http"));
}

TEST(LaunchEnvironment, VariablesByHand) {
  const Launch launch = launched(
      {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "pod-0"}, {"MASTER_PORT", "23456"}});
  EXPECT_EQ(launch.rendezvous, "pod-0:23456");
  EXPECT_EQ(launch.local_size, std::nullopt);
}

TEST(LaunchEnvironment, TorchrunInsideOthers) {
  // Two agents as tasks of mpirun or srun.
  const Environment agents = {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}};
  EXPECT_EQ(launched(with(kTorchrunRank, agents)).rank, 3);
  EXPECT_EQ(
      launched(with(kTorchrunRank, {{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}})).rank,
      3);
  // In a shell that is a step of one task.
  EXPECT_EQ(
      launched(with(kTorchrunRank, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}})).rank,
      3);
  // srun's tasks with torch's names for what srun says.
  EXPECT_EQ(launched(with(kSlurmTask, {{"RANK", "5"},
                                       {"WORLD_SIZE", "7"},
                                       {"MASTER_ADDR", "node03"},
                                       {"MASTER_PORT", "29500"}}))
                .rendezvous,
            "node03:29500");
}

TEST(LaunchEnvironment, ContradictionsAreRefused) {
  EXPECT_THAT(refusal(with(kHydraRank, kTorchrunRank)),
              AllOf(HasSubstr("RANK=3 with WORLD_SIZE=4"), HasSubstr("PMI_RANK=1 with PMI_SIZE=4"),
                    HasSubstr("unset")));
  EXPECT_THAT(refusal(with(kMpirunRank, kHydraRank)),
              AllOf(HasSubstr("OMPI_COMM_WORLD_RANK=2"), HasSubstr("PMI_RANK=1")));
  // One RANK exported by the job's script for all tasks of srun.
  EXPECT_THAT(refusal(with(kSlurmTask, {{"RANK", "0"}, {"WORLD_SIZE", "7"}})),
              AllOf(HasSubstr("RANK=0"), HasSubstr("SLURM_PROCID=5")));
  EXPECT_EQ(launched(with(kMpirunRank, {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}})).rank, 2);
}

TEST(LaunchEnvironment, HalvesAndNonsenseAreRefused) {
  EXPECT_THAT(refusal({{"OMPI_COMM_WORLD_RANK", "1"}}), HasSubstr("OMPI_COMM_WORLD_SIZE"));
  EXPECT_THAT(refusal({{"PMI_SIZE", "4"}}), HasSubstr("without PMI_RANK"));
  EXPECT_THAT(refusal({{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "prterun-1@1"}}),
              AllOf(HasSubstr("PMIX_RANK=1"), HasSubstr("--world-size")));
  for (const char* rank : {"-1", "4", "one", "1.5", "99999999999", " 1"}) {
    EXPECT_THAT(refusal(with(kMpirunRank, {{"OMPI_COMM_WORLD_RANK", rank}})),
                HasSubstr(std::string("OMPI_COMM_WORLD_RANK=") + rank))
        << rank;
  }
  EXPECT_THAT(refusal(with(kMpirunRank, {{"OMPI_COMM_WORLD_SIZE", "0"}})),
              HasSubstr("OMPI_COMM_WORLD_SIZE=0"));
}

TEST(LaunchEnvironment, PortsAndTokens) {
  for (int job = 0; job < 20000; ++job) {
    const int port = port_of_job("slurm " + std::to_string(job) + ".0");
    ASSERT_GE(port, 20000);
    ASSERT_LT(port, 32000);
  }
  EXPECT_NE(port_of_job("slurm 1.0"), port_of_job("slurm 2.0"));
  EXPECT_EQ(token_of_job("a", "b"), token_of_job("a", "b"));
  EXPECT_NE(token_of_job("a", "b"), token_of_job("a", "c"));
  EXPECT_LE(token_of_job("a", "b").size(), 32U);
}

TEST(LaunchEnvironment, VariablesOfTheProcess) {
  const char* const variables[] = {"A=1", "B=", "C=x=y", "odd", "A=2", nullptr};
  const Environment environment = environment_of(variables);
  EXPECT_EQ(environment, (Environment{{"A", "1"}, {"B", ""}, {"C", "x=y"}}));
  EXPECT_EQ(value_of(environment, "C"), "x=y");
  EXPECT_EQ(value_of(environment, "D"), "");
}

TEST(SlurmNodes, First) {
  const std::map<std::string, std::string> lists = {
      {"node1", "node1"},
      {"node1,node2", "node1"},
      {"node[03-04]", "node03"},
      {"node[7,1-3]", "node7"},
      {"node[08-10]-ib", "node08-ib"},
      {"rack[1-2]node[01-04,07],login", "rack1node01"},
      {"a-b.example.org,c[1-2]", "a-b.example.org"},
      {"gpu[1-99999999999999999999999999]", "gpu1"},
      {"n[1-1]", "n1"},
      {"n[009-10]", "n009"},
  };
  for (const auto& [list, first] : lists) {
    const auto node = first_node(list);
    ASSERT_TRUE(node) << list << ": " << node.error().message;
    EXPECT_EQ(*node, first) << list;
  }
}

TEST(SlurmNodes, BadListsAreRefusedWhereTheyGoWrong) {
  const std::string long_name(254, 'a');
  for (const std::string& list : {std::string(),
                                  std::string(","),
                                  std::string("a,"),
                                  std::string(",a"),
                                  std::string("a[1"),
                                  std::string("a[1-"),
                                  std::string("a[]"),
                                  std::string("a[1,]"),
                                  std::string("a[-1]"),
                                  std::string("a[2-1]"),
                                  std::string("a[10-9]"),
                                  std::string("a[1]]"),
                                  std::string("a]"),
                                  std::string("a[[1]]"),
                                  std::string("a[x]"),
                                  std::string("a b"),
                                  std::string("a[1-2-3]"),
                                  std::string("a:1"),
                                  std::string("bg[000x133]"),
                                  long_name}) {
    const auto node = first_node(list);
    ASSERT_FALSE(node) << list;
    EXPECT_THAT(node.error().message, HasSubstr("not a list of nodes")) << list;
  }
  EXPECT_THAT(first_node("a[1,x]").error().message, HasSubstr("character 5"));
}

TEST(SlurmNodes, TasksOnANode) {
  const auto on = [](std::string_view list, std::uint64_t node) {
    return tasks_on_node(list, node).value_or(-1);
  };
  EXPECT_EQ(on("4", 0), 4);
  EXPECT_EQ(on("4,3", 1), 3);
  EXPECT_EQ(on("4(x2),3", 0), 4);
  EXPECT_EQ(on("4(x2),3", 1), 4);
  EXPECT_EQ(on("4(x2),3", 2), 3);
  EXPECT_EQ(on("2(x2147483647),1(x2147483647)", 4000000000), 1);
  EXPECT_EQ(on("4(x2),3", 3), -1);
  for (const char* list : {"", "0", "4,", "4(2)", "4(x)", "4(x0)", "4(x2", "4x2", "-1", "4 ",
                           "99999999999", "4(x99999999999)", "4(x2)3"}) {
    EXPECT_EQ(on(list, 0), -1) << list;
  }
}

}  // namespace
}  // namespace dlobd::app
