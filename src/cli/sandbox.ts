/** `craik sandbox`: places of their own, what runs in them, and what goes in and out. */
import { Command } from 'commander'
import type { NounBuilder } from './context.ts'
import { cpCommand } from './sandbox/cp.ts'
import { createCommand } from './sandbox/create.ts'
import { deleteCommand } from './sandbox/delete.ts'
import { execCommand } from './sandbox/exec.ts'
import { forwardCommand } from './sandbox/forward.ts'
import { loginsCommand, psCommand, signalCommand, statsCommand } from './sandbox/inspect.ts'
import { pauseCommand, resumeCommand, stopCommand } from './sandbox/lifecycle.ts'
import { listCommand, showCommand } from './sandbox/list.ts'
import { logsCommand } from './sandbox/logs.ts'
import { shellCommand } from './sandbox/shell.ts'
import { forkCommand, restoreCommand, snapshotCommand } from './sandbox/snapshot.ts'

export const sandboxCommand: NounBuilder = (context) =>
  new Command('sandbox')
    .addCommand(createCommand(context))
    .addCommand(listCommand(context))
    .addCommand(showCommand(context))
    .addCommand(execCommand(context))
    .addCommand(shellCommand(context))
    .addCommand(cpCommand(context))
    .addCommand(statsCommand(context))
    .addCommand(loginsCommand(context))
    .addCommand(psCommand(context))
    .addCommand(signalCommand(context))
    .addCommand(logsCommand(context))
    .addCommand(forwardCommand(context))
    .addCommand(stopCommand(context))
    .addCommand(resumeCommand(context))
    .addCommand(pauseCommand(context))
    .addCommand(snapshotCommand(context))
    .addCommand(restoreCommand(context))
    .addCommand(forkCommand(context))
    .addCommand(deleteCommand(context))
