/** The catalogue of everything that can go wrong: each code with its HTTP status, exit code and hint. */

interface ErrorSpec {
  readonly status: number
  readonly exit: number
  readonly meaning: string
  readonly hint: string
}

export const ERRORS = {
  usage: {
    status: 400,
    exit: 2,
    meaning: 'A flag, argument or field has the wrong form or type.',
    hint: 'run the command with --help to see what it takes',
  },
  not_found: {
    status: 404,
    exit: 3,
    meaning: 'No record has the id or name that was given.',
    hint: 'list what there is with the noun’s `list` command',
  },
  conflict: {
    status: 409,
    exit: 4,
    meaning:
      'The record exists already, or a receipt id was reused: nothing was changed. Or another client took over the input of a job.',
    hint: 'choose another name, or remove the existing record first',
  },
  held_back: {
    status: 409,
    exit: 90,
    meaning:
      'Everything that was to be copied out of a sandbox is a file that programs of this machine run or trust. Nothing was written.',
    hint: 'look at the files first; then copy them with --include-unsafe',
  },
  too_large: {
    status: 413,
    exit: 5,
    meaning: 'An argument or input is larger than its limit.',
    hint: 'pass a shorter value; limits are in docs/reference/limits.md',
  },
  store_damaged: {
    status: 500,
    exit: 65,
    meaning: 'The database is not a readable Craik database (truncated or overwritten). It was not touched.',
    hint: 'restore state/craik.sqlite3 from a backup, or move it (with -wal, -shm and secrets/log.key) aside to start a new log',
  },
  key_unreadable: {
    status: 500,
    exit: 66,
    meaning: 'A key file is missing, unreadable or has the wrong content.',
    hint: 'restore the file from a backup: a new key cannot continue an existing log',
  },
  key_exposed: {
    status: 500,
    exit: 67,
    meaning: 'A key file or the home folder can be read or written by others.',
    hint: 'make it private with chmod (0600 for files, 0700 for folders)',
  },
  key_mismatch: {
    status: 500,
    exit: 68,
    meaning: 'The key file is not the key that this log was written with.',
    hint: 'put the original key back; see docs/receipts.md, "Keys"',
  },
  unavailable: {
    status: 503,
    exit: 69,
    meaning: 'Something that this command needs is not on this machine.',
    hint: 'install what is named, then try again',
  },
  internal: {
    status: 500,
    exit: 70,
    meaning: 'A fault in Craik itself.',
    hint: 'run again with CRAIK_DEBUG=1 for the stack, and report it',
  },
  clock_backwards: {
    status: 500,
    exit: 71,
    meaning: 'The system clock is earlier than the newest receipt. Nothing was written.',
    hint: 'set the clock right (timedatectl set-ntp true), then try again',
  },
  store_newer: {
    status: 500,
    exit: 72,
    meaning: 'The database was written by a newer version of Craik. It was not touched.',
    hint: 'upgrade craik, or point CRAIK_HOME at another folder',
  },
  home_unwritable: {
    status: 500,
    exit: 73,
    meaning: 'The home folder, or a file in it, cannot be created or written.',
    hint: 'check the owner and mode of CRAIK_HOME (default ~/.craik)',
  },
  disk_full: {
    status: 507,
    exit: 74,
    meaning:
      'The disk is full. If the receipt of a beginning could not be written, the action was not done; the message says so.',
    hint: 'free some space, then try again',
  },
  store_busy: {
    status: 503,
    exit: 75,
    meaning: 'Another process held the store for longer than this command waits.',
    hint: 'try again; if it persists, look for a stuck craik process',
  },
  login_required: {
    status: 401,
    exit: 2,
    meaning: 'The command acts for an operator, and nobody is logged in.',
    hint: 'log in on this machine:  craik login',
  },
  no_login: {
    status: 424,
    exit: 77,
    meaning:
      'An agent has no login on this machine that it could work with, or its provider refused the one it has.',
    hint: 'see what there is:  craik accounts',
  },
  harness_failed: {
    status: 502,
    exit: 89,
    meaning: 'An agent CLI inside a sandbox ended, broke off, or did not get ready.',
    hint: 'see the run, and go on or ask anew:  craik run list --prompts',
  },
  budget_exceeded: {
    status: 402,
    exit: 76,
    meaning: 'A budget has no room for the call, or has no price to hold it against. Nothing was sent.',
    hint: 'see what is left with `craik budget show`',
  },
  quota_exceeded: {
    status: 429,
    exit: 79,
    meaning: 'Too many requests or tokens in the last minute, or too many at once. Nothing was sent.',
    hint: 'try again when the message says',
  },
  provider_failed: {
    status: 502,
    exit: 80,
    meaning: 'A model provider could not be reached, refused the call, or broke off its answer.',
    hint: 'see what happened in the receipt; try again, or configure a failover rule',
  },
  boundary_failed: {
    status: 502,
    exit: 81,
    meaning: 'What runs inside a sandbox did not answer, broke off, or answered what it may not.',
    hint: 'see what happened:  craik sandbox logs ID',
  },
  refused_inside: {
    status: 422,
    exit: 87,
    meaning:
      'The sandbox’s own system said no: permissions, a read-only file system, a port that nobody listens on.',
    hint: 'look from inside:  craik sandbox shell ID',
  },
  export_failed: {
    status: 502,
    exit: 88,
    meaning: 'A destination outside could not be reached, is not one that may be, or refused what was sent.',
    hint: 'check the destination, then try again',
  },
  limit_reached: {
    status: 507,
    exit: 82,
    meaning: 'A limit of the sandbox (memory, processes, disk, open jobs) or of this machine is reached.',
    hint: 'see what is used:  craik sandbox stats ID',
  },
  version_mismatch: {
    status: 426,
    exit: 83,
    meaning: 'Two parts of Craik that talk to each other are of different versions.',
    hint: 'stop the old one:  craik supervisor stop',
  },
  sandbox_stopped: {
    status: 409,
    exit: 84,
    meaning: 'The sandbox exists, but nothing runs in it.',
    hint: 'see its state:  craik sandbox show ID',
  },
  supervisor_unreachable: {
    status: 503,
    exit: 85,
    meaning: 'The supervisor could not be started, or does not answer.',
    hint: 'see why:  craik supervisor logs',
  },
  unauthorized: {
    status: 401,
    exit: 86,
    meaning: 'The API was called without its token, or with one that is not valid (any more).',
    hint: 'the supervisor keeps it in run/token of CRAIK_HOME, for its owner alone',
  },
  denied: {
    status: 403,
    exit: 77,
    meaning: 'Policy denied the action. A denial receipt was written and nothing ran.',
    hint: 'see the rule with `craik policy show`',
  },
  invalid_config: {
    status: 422,
    exit: 78,
    meaning: 'A file that configures Craik does not parse or validate.',
    hint: 'mend the named line, then run `craik policy check <file>`',
  },
  refused_variable: {
    status: 403,
    exit: 64,
    meaning: 'The environment holds a variable that is not let near a sandbox. Nothing was started.',
    hint: 'take it away for this command:  env -u NAME …',
  },
  wrong_identity: {
    status: 409,
    exit: 78,
    meaning:
      'The GitHub login of this machine is not the account that the sandbox is for, or cannot be told. Nothing was started.',
    hint: 'log in as the expected account:  gh auth switch',
  },
  no_profile: {
    status: 404,
    exit: 78,
    meaning: 'There is no profile of that name.',
    hint: 'see which there are:  craik profile-list   or make it:  craik profile-new NAME',
  },
  not_up: {
    status: 409,
    exit: 2,
    meaning: 'The sandbox of this login does not run.',
    hint: 'start it:  craik up',
  },
  tampered: {
    status: 409,
    exit: 1,
    meaning: 'Verification found a contradiction: something was edited, removed, reordered or truncated.',
    hint: 'keep the file as evidence; docs/receipts.md explains each finding',
  },
  timeout: {
    status: 504,
    exit: 124,
    meaning: 'The command ran longer than its time limit and was stopped.',
    hint: 'give it more time with --timeout',
  },
  command_missing: {
    status: 422,
    exit: 127,
    meaning: 'The program to run does not exist or cannot be executed.',
    hint: 'check the name and PATH',
  },
  interrupted: {
    status: 499,
    exit: 130,
    meaning: 'Stopped by Ctrl-C.',
    hint: '',
  },
} as const satisfies Record<string, ErrorSpec>

export type ErrorCode = keyof typeof ERRORS

interface ErrorOptions {
  readonly hint?: string
  readonly details?: Readonly<Record<string, unknown>>
  readonly cause?: unknown
}

/** The one error class: a message says what was being done, to what; the hint says what to do next. */
export class CraikError extends Error {
  readonly code: ErrorCode
  readonly hint: string
  readonly details: Readonly<Record<string, unknown>> | undefined

  constructor(code: ErrorCode, message: string, options: ErrorOptions = {}) {
    super(message, { cause: options.cause })
    this.name = 'CraikError'
    this.code = code
    this.hint = options.hint ?? ERRORS[code].hint
    this.details = options.details
  }

  get exitCode(): number {
    return ERRORS[this.code].exit
  }
}
