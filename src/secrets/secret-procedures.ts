/**
 * The writer thread's procedures for secrets and command references. Each change and its receipt are in one
 * transaction.
 */
import { CraikError } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import type { ReceiptWriter } from '../receipts/receipt-writer.ts'
import type { ReceiptDraft } from '../receipts/schema.ts'
import type { Procedures, Tables } from '../store/store.ts'
import { unknownCommand } from './commands.ts'
import { unknownSecret } from './secret.ts'
import { type InputOf, putSecret, registerCommand, removeCommand, removeSecret } from './secret-writes.ts'

export function secretProcedures(receipts: ReceiptWriter, clock: Clock): Procedures {
  return {
    async [putSecret.name](tables: Tables, input: InputOf<typeof putSecret>) {
      const { operator, name, source, reference, sealed } = input
      if (source === 'command' && (await tables.commands.get(reference!)) === undefined)
        throw unknownCommand(reference!)
      const replaced = (await tables.secrets.get(name)) !== undefined
      await tables.secrets.put({ name, source, reference, sealed, updatedAtMs: clock.nowMs() })
      const operation = source === 'stored' ? 'set' : replaced ? 'rebind' : 'bind'
      await receipts.append(tables, secretReceipt(operator, name, operation, source))
      return { replaced }
    },

    async [removeSecret.name](tables: Tables, input: InputOf<typeof removeSecret>) {
      const row = await tables.secrets.get(input.name)
      if (row === undefined) throw unknownSecret(input.name)
      await tables.secrets.remove(input.name)
      await receipts.append(tables, secretReceipt(input.operator, input.name, 'remove', row.source))
    },

    async [registerCommand.name](tables: Tables, input: InputOf<typeof registerCommand>) {
      if ((await tables.commands.get(input.ref)) !== undefined)
        throw new CraikError('conflict', `command ${input.ref} is already registered`, {
          hint: `show the commands:  craik command list   or remove this one first:  craik command remove ${input.ref}`,
        })
      await tables.commands.insert({ ref: input.ref, argv: input.argv, createdAtMs: clock.nowMs() })
      await receipts.append(tables, commandReceipt(input.operator, input.ref, 'register'))
    },

    async [removeCommand.name](tables: Tables, input: InputOf<typeof removeCommand>) {
      if (!(await tables.commands.remove(input.ref))) throw unknownCommand(input.ref)
      await receipts.append(tables, commandReceipt(input.operator, input.ref, 'remove'))
      const secrets = await tables.secrets.list()
      const bound = secrets.filter((row) => row.source === 'command' && row.reference === input.ref)
      return { orphans: bound.map((row) => row.name) }
    },
  }
}

/**
 * Records the name and the kind of source. The reference to the source stays out of the log. The target has a slash,
 * because redaction takes what follows `secret:` for the value.
 */
function secretReceipt(operator: string, name: string, operation: string, source: string): ReceiptDraft {
  return {
    kind: 'environment_decision',
    phase: 'point',
    status: 'passed',
    operator,
    capability: 'secret.write',
    operation,
    target: `secret/${name}`,
    links: { secret_ref: name },
    metadata: { source },
  }
}

function commandReceipt(operator: string, ref: string, operation: string): ReceiptDraft {
  return {
    kind: 'environment_decision',
    phase: 'point',
    status: 'passed',
    operator,
    capability: 'command.write',
    operation,
    target: `command/${ref}`,
    links: { command_ref: ref },
    metadata: { source: 'registered' },
  }
}
