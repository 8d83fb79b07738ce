// Bugs that a simulation can be given, at the seams of the roles, to see that it finds them.
#pragma once

#include <cstdint>

namespace ndtrain::sim {

enum class Bug {
  kNone,
  kAckBeforeDurable,      // rows are acknowledged while they wait to be written
  kNoFileSync,            // fsync of a file does nothing
  kNoDirectorySync,       // fsync of a directory does nothing
  kStaleTermAccepted,     // messages of an earlier term are taken for this one's
  kRepeatsKept,           // a row that came twice is there twice
  kFullDiskIgnored,       // rows that do not fit count as written
  kNeighboursShifted,     // a photo that cannot be read gives its place to the next
  kChecksumIgnored,       // damaged rows pass
  kReceivedIsDurable,     // after a restart, what was received counts as there
  kMessageLost,           // one message vanishes from a stream that goes on
  kTermForgotten,         // a Tuner that comes back has its old term again
  kSplitByLife,           // the split follows from when the Tuner was started
  kAnswersUnmarked,       // a store does not say which asking of a job it answers
  kDeadlinesByWallClock,  // which people and time servers set
  kKnownTunerForgotten,   // a store that starts again knows no Tuner
  kVersionByLife,         // labels are under a version that follows from the Tuner's life
  kStartUnsaid,           // a Tuner does not say which of its starts it is
  kDeltaUnverified,       // a store takes what a delta makes, of whatever base
  // Of several tasks and collections.
  kPublishedToDefaultTask,  // a store puts every version in force of the default task
  kOneTaskAnswersForAll,    // an upload that is labelled in one task counts as labelled in all
  kTaskUnsaid,              // a store does not say of which task its uploads' lines are
  kRelabelsByDefaultTask,   // a relabelling of any task is by the default one's version
  kCollectionUnsaid,        // a store does not say of which collection its photos are
};

}  // namespace ndtrain::sim
