/** Every error of Craik: each code with its HTTP status, exit code, meaning and hint. */

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
    hint: 'run the command with --help to see its arguments and options',
  },
  not_found: {
    status: 404,
    exit: 3,
    meaning: 'No record has this id or name.',
    hint: 'list what exists with the `list` command, such as `craik sandbox list`',
  },
  conflict: {
    status: 409,
    exit: 4,
    meaning:
      'The record already exists, or a receipt id was reused: nothing was changed. Or another client took over the input of a job.',
    hint: 'show the current state with the `show` or `list` command, then try again',
  },
  held_back: {
    status: 409,
    exit: 90,
    meaning:
      'Every file to copy out of the sandbox is one that git, a shell, an editor or an agent on this machine would run or trust. Nothing was written.',
    hint: 'review the files first; then copy them with --include-unsafe',
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
    meaning:
      'The database is not a readable Craik database (truncated or overwritten). Craik did not change it.',
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
    meaning: 'Other users can read or write a key file or the home folder.',
    hint: 'make it private with chmod (0600 for files, 0700 for folders)',
  },
  key_mismatch: {
    status: 500,
    exit: 68,
    meaning: 'The key file does not contain the key of this log.',
    hint: 'restore the original key; see “Keys” in docs/reference/receipts.md',
  },
  unavailable: {
    status: 503,
    exit: 69,
    meaning: 'Something that this command needs is missing on this machine.',
    hint: 'check this machine:  craik doctor',
  },
  internal: {
    status: 500,
    exit: 70,
    meaning: 'An internal error of Craik.',
    hint: 'run again with CRAIK_DEBUG=1 for the stack trace, and report it',
  },
  clock_backwards: {
    status: 500,
    exit: 71,
    meaning: 'The system clock is earlier than the newest receipt. Nothing was written.',
    hint: 'correct the clock (timedatectl set-ntp true), then try again',
  },
  store_newer: {
    status: 500,
    exit: 72,
    meaning: 'The database was written by a newer version of Craik. Craik did not change it.',
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
      'The disk is full. If Craik could not write the first receipt of an action, it did not run the action; the message says so.',
    hint: 'free some space, then try again',
  },
  store_busy: {
    status: 503,
    exit: 75,
    meaning: 'Another process locked the database for longer than this command waits.',
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
    meaning: 'An agent has no usable login on this machine, or its provider rejected the login.',
    hint: 'list the logins:  craik accounts',
  },
  harness_failed: {
    status: 502,
    exit: 89,
    meaning: 'An agent in a sandbox exited, disconnected, or did not start.',
    hint: 'find the run, then resume it or start again:  craik run list --prompts',
  },
  budget_exceeded: {
    status: 402,
    exit: 76,
    meaning: 'A budget cannot cover the call, or the price of the call is unknown. Nothing was sent.',
    hint: 'show what is left:  craik budget show',
  },
  quota_exceeded: {
    status: 429,
    exit: 79,
    meaning: 'Too many requests or tokens in the last minute, or too many at once. Nothing was sent.',
    hint: 'wait as long as the message says, then try again',
  },
  provider_failed: {
    status: 502,
    exit: 80,
    meaning: 'A model provider could not be reached, refused the call, or ended its response early.',
    hint: 'see the receipt for the cause; try again, or configure a failover rule',
  },
  boundary_failed: {
    status: 502,
    exit: 81,
    meaning: 'The sandbox did not answer, disconnected, or sent an invalid response.',
    hint: 'see what happened:  craik sandbox logs ID',
  },
  refused_inside: {
    status: 422,
    exit: 87,
    meaning:
      'The operating system in the sandbox refused: permissions, a read-only file system, a port that nothing listens on.',
    hint: 'check in the sandbox:  craik sandbox shell ID',
  },
  export_failed: {
    status: 502,
    exit: 88,
    meaning: 'A destination outside the sandbox could not be reached, is not allowed, or refused the data.',
    hint: 'check the destination, then try again',
  },
  limit_reached: {
    status: 507,
    exit: 82,
    meaning: 'A limit of the sandbox (memory, processes, disk, open jobs) or of this machine was reached.',
    hint: 'show the usage:  craik sandbox stats ID',
  },
  version_mismatch: {
    status: 426,
    exit: 83,
    meaning: 'Two parts of Craik that communicate have different versions.',
    hint: 'stop the old one:  craik supervisor stop',
  },
  sandbox_stopped: {
    status: 409,
    exit: 84,
    meaning: 'The sandbox exists, but is not running.',
    hint: 'show its state:  craik sandbox show ID',
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
    meaning: 'The API request has no token, or an invalid or expired one.',
    hint: 'use the token in run/token of CRAIK_HOME, which only its owner can read',
  },
  denied: {
    status: 403,
    exit: 77,
    meaning: 'Policy denied the action. A denial receipt was written and nothing ran.',
    hint: 'show the rules:  craik policy show',
  },
  invalid_config: {
    status: 422,
    exit: 78,
    meaning: 'A configuration file of Craik does not parse or validate.',
    hint: 'fix the line that the message names, then run `craik policy check <file>`',
  },
  refused_variable: {
    status: 403,
    exit: 64,
    meaning: 'The environment contains a variable that sandboxes must not see. Nothing was started.',
    hint: 'unset it for this command:  env -u NAME …',
  },
  wrong_identity: {
    status: 409,
    exit: 78,
    meaning:
      'The GitHub login of this machine is not the account that the sandbox expects, or cannot be determined. Nothing was started.',
    hint: 'log in as the expected account:  gh auth switch',
  },
  no_profile: {
    status: 404,
    exit: 78,
    meaning: 'No profile has this name.',
    hint: 'list the profiles:  craik profile-list   or create one:  craik profile-new NAME',
  },
  not_up: {
    status: 409,
    exit: 2,
    meaning: 'The sandbox of this login is not running.',
    hint: 'start it:  craik up',
  },
  tampered: {
    status: 409,
    exit: 1,
    meaning: 'Verification found a contradiction: something was edited, removed, reordered or truncated.',
    hint: 'keep the file as evidence; docs/reference/receipts.md explains each finding',
  },
  timeout: {
    status: 504,
    exit: 124,
    meaning: 'The command ran longer than its time limit and was stopped.',
    hint: 'allow more time with --timeout',
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

/** The only error class. Its message says what failed, with the value. Its hint says what to do next. */
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
