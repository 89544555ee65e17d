//! Laws of all drivers, checked on real processes through real sockets: the conformance suite.
//!
//! One test is one law. It is checked on every driver of a server, with one thread and with two; a failure names both. The server
//! is a program that ends in [`crate::test_server::main`], and [`crate::conformance!`] makes the tests.

#![allow(clippy::print_stderr, clippy::unwrap_used, reason = "the laws are tests")]

mod bodies;
mod case;
mod confined;
mod crowds;
mod deferred;
mod kernel_tls;
mod lifecycle;
mod managed;
mod pipelining;
mod pipes;
mod pushes;
mod registered;
mod sent;
mod service;
mod shortage;
mod signals;
mod streaming;
mod timeouts;
mod tls;
mod upgrade;

pub use case::check;
pub(crate) use case::is_replaced;

/// Makes a test of each law: `testkit::conformance!(DRIVERS, SERVER)`, with a type that is a [`drivers::DriverSet`], and the path
/// of the server that has these drivers.
#[macro_export]
macro_rules! conformance {
    ($drivers:ty, $server:expr) => {
        type Drivers = $drivers;
        const SERVER: &str = $server;
        $crate::each_law! { [$crate::make_tests] }
    };
}

/// Part of [`crate::conformance!`].
#[doc(hidden)]
#[macro_export]
macro_rules! make_tests {
    ($($module:ident { $($law:ident)+ })+) => {
        $(mod $module {
            $(#[test]
            fn $law() {
                $crate::conformance::check::<super::Drivers>(super::SERVER, $crate::conformance::laws::$module::$law);
            })+
        })+
    };
}

/// Hands all laws to another macro. One that is missing here is unreachable, and a warning of the compiler.
#[doc(hidden)]
#[macro_export]
macro_rules! each_law {
    ([$($callback:tt)+]) => {
        $($callback)+! {
            bodies {
                every_kind_of_body_is_complete_for_a_fast_reader
                every_kind_of_body_is_complete_for_a_slow_reader
                pipelined_bodies_of_every_kind_keep_their_order
                requests_held_until_a_turn_is_used_up_are_answered_after_a_half_close
                a_cached_pipe_survives_readers_that_disconnect
                a_file_that_shrinks_during_a_transfer_closes_it
            }
            confined {
                a_confined_server_can_neither_open_nor_start_nor_reach_what_it_does_not_need
                a_confined_server_does_all_that_it_is_for
                the_socket_has_the_permissions_that_the_flag_names
                root_becomes_another_user_once_its_addresses_are_bound
                an_unknown_user_is_an_error
            }
            crowds {
                resets_during_transfers_leak_nothing
                thousands_of_idle_connections_block_nobody
                thousands_of_silent_connections_block_nobody
                connections_take_turns_when_workers_are_few
                half_a_request_holds_nobody_up
                a_client_that_hesitates_in_a_crowd_is_served
                connections_above_the_limit_are_refused_until_some_leave
                resets_before_accept_disturb_nobody
                several_threads_share_the_connections
            }
            deferred {
                deferred_replies_keep_their_order
                waits_for_deferred_replies_overlap
                a_request_after_a_pending_promise_waits_for_it
                input_held_for_an_empty_reply_is_read_afterwards
                a_half_close_waits_for_pending_promises
                a_dropped_promise_closes_after_what_came_before_it
                disconnects_with_pending_promises_disturb_nobody
                disconnects_with_pending_promises_leak_nothing
                more_replies_than_the_outbox_holds_can_be_deferred
                large_replies_after_a_pending_promise_are_all_sent
            }
            kernel_tls {
                a_step_is_taken_between_the_bytes_before_it_and_those_behind_it
                requests_are_read_on_after_a_step
                a_step_that_fails_ends_the_connection_behind_what_comes_before_it
            }
            lifecycle {
                a_unix_socket_serves_and_leaves_no_file
                a_port_in_use_is_one_clear_error
                bad_usage_is_exit_status_2
                io_uring_refused_by_the_kernel_is_one_clear_error
                every_driver_is_listed_with_a_description
                port_0_is_announced_as_the_chosen_port
            }
            managed {
                the_service_manager_is_told_of_every_state
                a_reload_is_over_when_its_hooks_are_and_a_failure_is_the_status
                the_watchdog_hears_of_a_server_that_turns_whatever_it_does
                the_watchdog_hears_nothing_while_a_loop_is_stuck
            }
            pipelining {
                pipelined_requests_are_all_answered_after_a_half_close
                a_client_that_sends_much_before_reading_gets_all_replies
                torn_requests_and_trickled_replies_are_the_same_stream
                a_request_and_the_end_in_one_segment_are_both_seen
                a_half_close_without_a_whole_request_ends_the_connection
                output_pending_at_a_half_close_is_still_sent
                a_lingering_close_delivers_the_last_reply
                a_close_after_ack_is_not_overtaken_by_a_reset
                a_plain_close_and_a_lingering_one_end_the_connection
                a_request_that_never_ends_is_cut_off_at_the_limit
                batches_answer_every_connection
            }
            pipes {
                a_small_cached_response_is_one_tee_and_one_splice
                scratch_pipes_are_used_again
                without_scratch_pipes_all_is_sent_and_counted
                scratch_pipes_that_are_too_small_are_not_used
                a_tee_cut_short_is_noticed
                out_of_descriptors_bodies_are_sent_without_a_pipe
                failing_calls_cost_no_connection_and_no_byte
                a_scratch_pipe_in_use_is_closed_with_its_connection
                slow_readers_hold_no_more_scratch_pipes_than_the_limit
                only_the_last_link_of_a_chain_is_pushed
            }
            pushes {
                an_idle_connection_gets_pushes_in_their_order
                pushes_stand_between_pipelined_replies
                a_reply_does_not_overtake_what_was_pushed_before
                a_connection_can_publish_to_itself
                a_subscriber_that_does_not_read_is_cut_off
                a_push_to_a_connection_that_has_gone_is_harmless
                a_half_close_ends_a_subscription
                a_drain_sends_what_has_been_pushed
                an_idle_subscriber_is_not_closed
                subscribers_beyond_the_workers_are_served
                a_close_ends_a_subscription
            }
            registered {
                registered_memory_arrives_whole_and_in_order
                registered_memory_keeps_its_place_among_other_segments
                sent_pages_are_not_reused_before_they_have_arrived
                disconnects_during_sends_leak_nothing
                uring_sends_registered_memory_without_copying_it
                a_refusal_by_the_kernel_is_an_error_at_start
            }
            sent {
                output_that_has_been_sent_is_reported
                output_that_the_peer_has_yet_to_take_is_not_reported
            }
            service {
                every_front_end_knows_its_number
                a_protocol_sees_the_address_of_its_client
                a_server_reads_the_counters_of_its_driver
                a_server_may_stop_itself
                the_action_at_the_end_runs_after_a_drain_timeout
                a_failing_action_at_the_end_is_an_error
                connections_have_the_configured_buffers
                the_backlog_is_the_configured_one
                bad_values_of_variables_are_bad_usage
                limits_of_the_machine_are_judged_by_the_flags
                limits_that_would_serve_nobody_are_bad_usage
                a_busy_port_of_metrics_is_found_before_it_listens
                help_shows_the_defaults_of_the_server
                a_server_may_have_a_default_address_of_metrics
                a_signal_is_obeyed_without_a_reader_of_standard_error
            }
            shortage {
                a_shortage_of_descriptors_neither_spins_nor_lasts
                open_connections_are_served_without_free_descriptors
                a_low_limit_of_open_files_is_for_connections
                interrupted_calls_are_invisible
                a_connection_without_a_thread_is_refused_and_counted
            }
            signals {
                a_drain_finishes_what_is_in_flight
                a_drain_answers_what_has_arrived
                a_paused_server_loses_no_connection
                a_second_signal_stops_at_once
                sigquit_and_sigint_drain_like_sigterm
                signals_without_a_meaning_end_no_server
                a_server_reloads_at_sighup_and_reopens_at_sigusr1
                a_signal_that_comes_twice_at_once_is_one_signal
                the_drain_timeout_is_honoured
                a_server_without_connections_drains_at_once
                connections_during_a_drain_do_not_hang
            }
            streaming {
                a_streamed_reply_is_made_as_there_is_room
                streamed_replies_keep_their_place_among_others
                a_slow_reader_gets_all_of_a_stream
                a_half_close_waits_for_the_whole_stream
                a_drain_waits_for_the_whole_stream
                a_stream_past_the_greatest_age_is_completed
                a_stream_that_nobody_takes_ends_the_connection
                the_end_of_input_is_told_once_and_answered_last
                a_drain_is_the_end_of_input_of_idle_connections
                an_answered_connection_keeps_no_buffer
            }
            timeouts {
                an_idle_connection_is_closed_and_activity_postpones_that
                frequent_pauses_postpone_no_deadline
                a_slow_reader_is_not_idle
                a_pending_promise_is_not_idle
                a_promise_may_take_longer_than_the_stall_limit
                a_promise_that_comes_due_during_a_pause_is_sent
                a_request_that_does_not_end_in_time_is_told_so
                a_reader_that_stalls_is_cut_off
                a_steady_reader_above_the_least_rate_is_not_cut_off
                a_reader_that_is_only_slow_is_not_cut_off
                an_old_connection_is_closed_between_requests
                a_pipelining_connection_grows_no_older
            }
            tls {
                every_kind_of_body_is_complete_over_tls
                a_slow_reader_gets_all_of_a_body_over_tls
                pipelined_and_deferred_replies_keep_their_order_over_tls
                connections_of_a_batch_may_be_plain_and_tls
                every_end_over_tls_is_preceded_by_close_notify
                a_drain_over_tls_completes_transfers_and_says_goodbye
                plain_bytes_on_a_tls_address_get_an_alert
                openssl_is_answered_and_its_renegotiation_refused
                pushes_and_their_limit_hold_over_tls
            }
            upgrade {
                upgrades_refuse_no_connection_and_lose_no_request
                transfers_survive_an_upgrade
                a_successor_that_does_not_start_replaces_nobody
                the_file_of_a_unix_socket_goes_with_its_last_listener
                an_upgrade_may_change_the_driver
                sockets_of_a_service_manager_are_taken_or_refused
            }
        }
    };
}

macro_rules! export {
    ($($module:ident { $($law:ident)+ })+) => {
        /// The laws.
        pub mod laws {
            $(pub mod $module {
                pub use super::super::$module::{$($law),+};
            })+
        }
    };
}

each_law! { [export] }
